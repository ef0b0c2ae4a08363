// Beam search over a step function; a beam of one is greedy search. The rules are those of regard's search.
//
// At each step the decoder scores the extensions of every live hypothesis, and the best are kept. Those that end (with the
// end token, or at the maximum length without it) are set aside, ranked by the score of Wu et al. 2016; the others stay
// live. The search is finished when no live hypothesis can beat the best of those set aside. Sums are of 32 bits.
const single = Math.fround;

// `step(tokens, rows)` reads the last token of each row, rows chosen among those of the step before, and returns
// {logProbs: [Float32Array], weights: [Float32Array] or null} with one array a row.
export async function beamSearch(step, rules) {
  const {beam, end} = rules, banned = new Set(rules.banned);
  const steps = [], complete = [], cut = [];
  let totals = [0], tokens = [rules.start], parents = [0], covered = [new Float32Array(rules.positions)];
  for (let length = 1; ; length++) {
    const {logProbs, weights} = await step(tokens, parents);
    if (logProbs.some((row) => row.some(Number.isNaN))) {
      throw new Error(`The model's logits for token ${length} are not finite: its weights are damaged.`);
    }
    const thoughts = rules.candidates ? logProbs.map((row) => largest(row, rules.candidates)) : null;
    logProbs.forEach((row) => {
      banned.forEach((token) => { row[token] = -Infinity; });
      if (length <= rules.minLength) row[end] = -Infinity;
    });
    const best = extend(totals, logProbs, beam);
    if (best[0].total === -Infinity) break;
    steps.push(best.map(({slot, token, total, logProb}) => ({
      slot, token, total, logProb, weights: weights && weights[slot], thoughts: thoughts && thoughts[slot],
    })));
    if (rules.coveragePenalty) covered = best.map(({slot}) => lookedAt(covered[slot], weights[slot]));
    best.forEach(({token, total}, place) => {
      if (total === -Infinity || (token !== end && length < rules.limit)) return;
      const penalty = rules.coveragePenalty ? coveragePenalty(covered[place], rules.coveragePenalty) : 0;
      const score = single(single(total / lengthPenalty(length, rules.lengthPenalty)) + penalty);
      (token === end ? complete : cut).push({score, length, place});
    });
    totals = best.map(({token, total}) => (token === end || length >= rules.limit ? -Infinity : total));
    const bound = single(Math.max(...totals) / mostPenalty(length, rules));
    if (!(bound > Math.max(-Infinity, ...complete.map(({score}) => score)))) break;
    if (rules.patience && complete.length >= rules.patience * beam) break;
    tokens = best.map(({token}) => token);
    parents = best.map(({slot}) => slot);
  }
  const ended = first(complete) ?? first(cut);
  if (!ended) throw new Error("The model gives zero probability to every allowed translation.");
  return {score: ended.score, complete: ended === first(complete), steps: trace(steps, ended)};
}

// The maximum number of tokens of a translation, the end token included.
export function limitOf(search, length) {
  const usual = search.longest || Math.ceil(search.max_ratio * length) + search.spare;
  const most = search.max_length || Math.max(usual, search.min_length + 1);
  return Math.min(most, search.most || most);
}

export function largest(row, count) {  // the first of equal ones
  const found = [];
  for (let token = 0; token < row.length; token++) {
    if (found.length === count && !(row[token] > found[count - 1].value)) continue;
    let at = found.length;
    while (at && row[token] > found[at - 1].value) at--;
    found.splice(at, 0, {token, value: row[token]});
    if (found.length > count) found.pop();
  }
  return found;
}

function extend(totals, logProbs, beam) {
  const found = totals.flatMap((total, slot) => largest(logProbs[slot], beam).map(
    ({token, value}) => ({slot, token, logProb: value, total: single(total + value)})));
  return found.sort((a, b) => b.total - a.total || 0).slice(0, beam);  // || 0: two of -Infinity differ by NaN
}

function first(ended) {  // of equal scores the earliest
  return ended.reduce((best, one) => (best === undefined || one.score > best.score ? one : best), undefined);
}

function trace(steps, {length, place}) {
  const found = [];
  for (let at = length - 1; at >= 0; at--) {
    found.unshift(steps[at][place]);
    place = steps[at][place].slot;
  }
  return found;
}

const lengthPenalty = (length, alpha) => single(((5 + length) / 6) ** alpha);

function mostPenalty(length, {limit, lengthPenalty: alpha}) {  // the largest that a live hypothesis can have at its end
  return Math.max(single(single((5 + limit) / 6) ** alpha), lengthPenalty(length + 1, alpha));
}

function lookedAt(covered, weights) {  // weights: layers × heads × positions
  const rows = weights.length / covered.length;
  return covered.map((sum, position) => {
    let mean = 0;
    for (let row = 0; row < rows; row++) mean += weights[row * covered.length + position];
    return sum + mean / rows;
  });
}

function coveragePenalty(covered, beta) {
  const smallest = 1.1754943508222875e-38;  // a position without attention
  return single(beta * covered.reduce((sum, each) => sum + Math.log(Math.min(Math.max(each, smallest), 1)), 0));
}
