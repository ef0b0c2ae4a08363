"use strict";
// Click a column head to sort the table by it: numbers by value, texts alphabetically, dashes last.
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => {
        const cell = row.cells[column];
        return cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value);
      };
      const rank = (value) => (typeof value === "number" ? 0 : value === "–" || value === "" ? 2 : 1);
      const rows = [...table.tBodies[0].rows].sort((one, other) => {
        const a = key(one), b = key(other);
        if (rank(a) !== rank(b)) return rank(a) - rank(b);
        const order = typeof a === "number" ? a - b : String(a).localeCompare(String(b));
        return down ? -order : order;
      });
      table.tBodies[0].append(...rows);
    });
  });
}
