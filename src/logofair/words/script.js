(function () {
  "use strict";
  const root = document.documentElement;
  root.classList.add("js");
  const find = (query, inside) => Array.from((inside || document).querySelectorAll(query));

  // Light or dark: as the system has it, until the reader chooses.
  const theme = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  function showTheme() {
    theme.textContent = isDark() ? "Light" : "Dark";
    theme.setAttribute("aria-label", isDark() ? "Switch to light colours" : "Switch to dark colours");
  }
  theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; showTheme(); });
  system.addEventListener("change", showTheme);
  showTheme();

  // What a link leads to is opened where it is folded.
  function unfold() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const closed = [];
    for (let part = target; part; part = part.parentElement) if (part.matches("details:not([open])")) closed.push(part);
    closed.forEach((part) => { part.open = true; });
    if (closed.length) target.scrollIntoView();
  }
  window.addEventListener("hashchange", unfold);
  unfold();

  // Tables: sort by a column, search the rows.
  const collator = new Intl.Collator(undefined, { numeric: true });
  function key(cell) {
    if (cell.dataset.key !== undefined) return Number(cell.dataset.key);
    const number = parseFloat(cell.textContent.replace(/,/g, ""));
    return Number.isNaN(number) ? -Infinity : number;
  }
  function sortBy(table, column, heading) {
    const up = heading.getAttribute("aria-sort") === "descending" || (!heading.hasAttribute("aria-sort") && !heading.classList.contains("r"));
    find("th[aria-sort]", table).forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
    const numeric = heading.classList.contains("r"), way = up ? 1 : -1, body = table.tBodies[0];
    const rows = Array.from(body.rows).map((row) => [row, numeric ? key(row.cells[column]) : row.cells[column].textContent]);
    const compare = numeric ? (a, b) => (a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : 0) : (a, b) => collator.compare(a[1], b[1]);
    rows.sort((a, b) => way * compare(a, b));
    body.append(...rows.map((row) => row[0]));
  }
  function searchIn(table, name) {
    const box = document.createElement("div"), label = document.createElement("label");
    const field = document.createElement("input"), said = document.createElement("output");
    box.className = "search js-only";
    field.type = "search";
    field.autocomplete = "off";
    label.append(name + " ", field);
    box.append(label, said);
    const rows = Array.from(table.tBodies[0].rows), words = rows.map((row) => row.textContent.toLowerCase());
    field.addEventListener("input", () => {
      const wanted = field.value.trim().toLowerCase();
      let shown = 0;
      rows.forEach((row, i) => { row.hidden = !words[i].includes(wanted); shown += !row.hidden; });
      said.textContent = wanted ? shown + " of " + rows.length + " rows" : "";
    });
    table.closest(".scroll").before(box);
  }
  find("table").forEach((table) => {
    const rows = table.tBodies[0].rows.length;
    if (rows > 1 && table.dataset.search) {
      Array.from(table.tHead.rows[0].cells).forEach((heading, column) => {
        // No button element: browsers leave those out where a printed table repeats its headings.
        const button = document.createElement("span");
        button.className = "sort";
        button.tabIndex = 0;
        button.setAttribute("role", "button");
        button.append(...heading.childNodes);
        heading.append(button);
        button.addEventListener("click", () => sortBy(table, column, heading));
        button.addEventListener("keydown", (event) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          sortBy(table, column, heading);
        });
      });
    }
    if (table.dataset.search && rows > 8) searchIn(table, table.dataset.search);
  });

  // On paper everything is unfolded and nothing searched away.
  window.addEventListener("beforeprint", () => {
    find("details").forEach((part) => { part.open = true; });
  });
})();
