// Drives the page of `regard export --format web` in headless Chromium; started by web.py, which says what to do on stdin.
import {createRequire} from "node:module";
import {readFileSync} from "node:fs";

const asked = JSON.parse(readFileSync(0, "utf8"));
const {chromium} = createRequire(`${asked.modules}/`)("playwright-core");
const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({executablePath: asked.chromium, args: flags});
const told = {requests: [], errors: [], found: [], overflow: {}};

async function open(options) {
  const context = await browser.newContext(options), page = await context.newPage();
  page.on("request", (request) => told.requests.push(request.url()));
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) told.errors.push(message.text()); });
  page.on("pageerror", (error) => told.errors.push(String(error)));
  await page.goto(asked.address);
  await page.waitForSelector("html[data-ready], .wrong[role]:not([hidden])", {timeout: 60000, state: "attached"}).catch(() => null);
  if (!await page.getAttribute("html", "data-ready")) {
    console.error(`The page is not ready: ${await page.innerText("main")}\n${told.errors.join("\n")}`);
    process.exit(1);
  }
  return [context, page];
}

async function translate(page, text, beam) {
  await page.fill("#given", text);
  await page.fill(".beam input", String(beam));
  await page.evaluate(() => { document.querySelector(".score").textContent = ""; });
  await page.click(".go");
  await page.waitForFunction(() => document.querySelector(".score").textContent);
  return page.textContent(".answer");
}

const [context, page] = await open({viewport: {width: 1100, height: 900}});
await context.setOffline(true);  // all is loaded
for (const {text, beam} of asked.texts) told.found.push(await translate(page, text, beam));
const data = await page.textContent('.view script[type="application/json"]');
told.view = JSON.parse(data);
await context.close();
const looks = {light: {colorScheme: "light", viewport: {width: 1100, height: 900}}, dark: {colorScheme: "dark", viewport: {width: 1100, height: 900}}, narrow: {viewport: {width: 360, height: 780}}};
for (const [name, options] of asked.pictures ? Object.entries(looks) : []) {
  const [own, shown] = await open(options);
  await translate(shown, asked.texts[0].text, asked.texts[0].beam);
  await shown.click(".stepper .words button:nth-child(2)");
  await shown.waitForTimeout(400);  // colours change softly
  told.overflow[name] = await shown.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  await shown.screenshot({path: `${asked.pictures}/${name}.png`, fullPage: true});
  await own.close();
}
await browser.close();
console.log(JSON.stringify(told));
