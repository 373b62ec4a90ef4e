// The result tables: sorted, filtered, with the columns that are wanted; a row opens its run.
{
  const holder = document.getElementById("grid");
  const experiments = document.getElementById("of-experiment");
  const printed = 60;  // rows on paper at most

  // "> 5", "2..4", "= 3", else a part of the text.
  function matches(wanted, value, row, { number }) {
    const text = String(wanted).trim();
    if (!text) return true;
    if (value === null || value === undefined) return false;
    const compared = /^(<=|>=|<|>|=)\s*(-?[\d.]+)$/.exec(text);
    const range = /^(-?[\d.]+)\s*\.\.\s*(-?[\d.]+)$/.exec(text);
    if (number && compared) {
      const limit = Number(compared[2]);
      return { "<": value < limit, "<=": value <= limit, ">": value > limit, ">=": value >= limit, "=": value === limit }[compared[1]];
    }
    if (number && range) return value >= Number(range[1]) && value <= Number(range[2]);
    if (number) return numberText(value).startsWith(text) || String(value).startsWith(text);
    return compared?.[1] === "=" ? String(value) === text.slice(1).trim() : String(value).toLowerCase().includes(text.toLowerCase());
  }

  // Rows of runs, or of their means over the trials with the least and the most.
  function rowsOf(table, wanted, means) {
    const run = table.columns.find((column) => column.id === "run");
    if (!means) {
      return wanted.map((row) => Object.fromEntries(
        table.columns.map((column, place) => [`c${place}`, valueOf(column, row)]).concat([["id", row], ["run", valueOf(run, row)]])));
    }
    const keys = table.columns.filter((column) => column.key && column.id !== "run" && column.id !== "trial");
    const groups = new Map();
    for (const row of wanted) {
      const key = JSON.stringify(keys.map((column) => valueOf(column, row)));
      groups.get(key)?.push(row) ?? groups.set(key, [row]);
    }
    return [...groups.values()].map((group) => {
      const made = { id: group[0], run: valueOf(run, group[0]) };
      table.columns.forEach((column, place) => {
        const first = valueOf(column, group[0]);
        if (column.levels || column.key) {
          made[`c${place}`] = group.every((row) => valueOf(column, row) === first) ? first : null;
          return;
        }
        const values = group.map((row) => column.values[row]).filter((value) => value !== null);
        if (!values.length) return void (made[`c${place}`] = null);
        made[`c${place}`] = values.reduce((sum, value) => sum + value, 0) / values.length;
        made[`r${place}`] = [Math.min(...values), Math.max(...values)];
      });
      return made;
    });
  }

  function cellText(cell, { place, title }) {
    const value = cell.getValue();
    const text = document.createElement("span");
    const told = (one) => numberText(one, title.endsWith("(ms)"));
    text.textContent = told(value);
    const range = cell.getData()[`r${place}`]?.map(told);
    if (range && range[0] !== range[1]) {
      const spread = document.createElement("small");
      spread.textContent = range.join("–");
      text.append(spread);
    }
    return text;
  }

  // Of the factors, those that tell the rows of an experiment apart; of all experiments, one column has the levels.
  function isShown(table, column, wanted, means) {
    if (!column.shown || (means && column.id === "trial")) return false;
    if (!column.key || ["trial", "engine", "flow", "cc", "link", "queue"].includes(column.id)) return true;
    const values = wanted.map((row) => valueOf(column, row));
    if (experiments.value) return new Set(values).size > 1;
    return !severalExperiments() || column.id === "experiment";
  }

  const severalExperiments = () => !experiments.parentElement.hidden && !experiments.value;

  function levelsOf(table) {
    const factors = table.columns.map((column, place) => [column.title, `c${place}`, column])
      .filter(([, , column]) => column.key && !["experiment", "trial", "engine", "flow", "cc", "link", "queue", "run"].includes(column.id));
    return (row) => factors.filter(([, field]) => row[field] !== null).map(([title, field]) => `${title} = ${row[field]}`).join(", ");
  }

  function columnsOf(table, wanted, means) {
    const columns = table.columns.map((column, place) => {
      const number = !column.levels;
      return {
        title: column.title, headerTooltip: column.id, field: `c${place}`, visible: isShown(table, column, wanted, means),
        headerFilter: "input", headerFilterLiveFilter: true, headerFilterFunc: matches, headerFilterFuncParams: { number },
        headerFilterPlaceholder: number && !column.key ? "> …" : "", sorter: number ? "number" : "alphanum",
        hozAlign: number && !column.key ? "right" : "left", headerHozAlign: number && !column.key ? "right" : "left",
        formatter: column.key ? "plaintext" : cellText, formatterParams: { place, title: column.title },
        minWidth: 70, headerSortTristate: true,
      };
    });
    if (severalExperiments()) {
      const levels = levelsOf(table);
      columns.splice(1, 0, {
        title: "levels", field: "levels", mutatorData: (_, row) => levels(row), headerFilter: "input", headerFilterFunc: matches,
        headerFilterFuncParams: { number: false }, sorter: "alphanum", maxInitialWidth: 420, tooltip: true,
      });
    }
    const first = columns.find((column) => column.visible !== false);
    if (first) first.frozen = true;
    return columns;
  }

  // A shadow says that there is more on the right.
  function hint() {
    const inside = holder.querySelector(".tabulator-tableholder");
    if (inside) holder.classList.toggle("has-more", inside.scrollLeft + inside.clientWidth < inside.scrollWidth - 1);
  }

  let grid = null;
  async function show(name) {
    const table = await tableOf(name);
    const several = new Set(table.columns.find((column) => column.id === "trial").values).size > 1;
    const box = document.querySelector("#means input");
    document.getElementById("means").hidden = !several;
    const means = several && box.checked;
    const experiment = table.columns.find((column) => column.id === "experiment");
    const wanted = Array.from({ length: table.rows }, (_, row) => row)
      .filter((row) => !experiments.value || valueOf(experiment, row) === experiments.value);
    const data = rowsOf(table, wanted, means);
    const columns = columnsOf(table, wanted, means);
    grid?.destroy();
    // Only a table of fixed height renders no more rows than are in sight.
    grid = new Tabulator(holder, {
      data, columns, layout: "fitDataFill", height: data.length > 15 ? "min(40rem, 80vh)" : false,
      placeholder: "No row passes the filters.", printAsHtml: true, printStyled: false, printRowRange: () => grid.getRows("active").slice(0, printed),
    });
    const count = () => {
      const active = grid.getDataCount("active");
      const all = grid.getDataCount();
      document.getElementById("shown").textContent = `${active === all ? all : `${active} of ${all}`} row${all === 1 ? "" : "s"}`;
    };
    grid.on("dataFiltered", () => setTimeout(count));
    grid.on("tableBuilt", () => {
      count();
      hint();
    });
    for (const event of ["scrollHorizontal", "renderComplete", "columnVisibilityChanged"]) grid.on(event, hint);
    grid.on("rowClick", (_, row) => { location.hash = `run=${row.getData().run}`; });
    chooser(table, columns);
    for (const button of document.querySelectorAll("button[data-table]")) {
      button.setAttribute("aria-pressed", String(button.dataset.table === name));
    }
    window.l4slab.order = () => [...new Set(grid.getData("active").map((row) => row.run))];
  }

  function chooser(table, columns) {
    document.getElementById("columns").replaceChildren(...table.columns.map((column, place) => {
      const box = document.createElement("input");
      box.type = "checkbox";
      box.checked = columns.find((one) => one.field === `c${place}`).visible;
      box.addEventListener("change", () => grid.toggleColumn(`c${place}`));
      const label = document.createElement("label");
      label.append(box, ` ${column.title}`);
      label.title = column.id;
      return label;
    }));
  }

  async function chooseExperiments() {
    const table = await tableOf(chosen());
    const { levels } = table.columns.find((column) => column.id === "experiment");
    if (levels.length < 2) return;
    experiments.append(...levels.map((name) => new Option(name, name)));
    experiments.parentElement.hidden = false;
  }

  const chosen = () => document.querySelector('button[data-table][aria-pressed="true"]').dataset.table;
  const said = (error) => { holder.textContent = `The table cannot be shown: ${error.message}.`; };
  if (holder) {
    document.querySelector("#results .tools").hidden = false;
    for (const button of document.querySelectorAll("button[data-table]")) {
      button.addEventListener("click", () => show(button.dataset.table).catch(said));
    }
    experiments.addEventListener("change", () => show(chosen()).catch(said));
    document.querySelector("#means input").addEventListener("change", () => show(chosen()).catch(said));
    document.getElementById("csv").addEventListener("click", () => grid?.download("csv", `${chosen()}.csv`));
    // Tabulator waits for keys; what is pasted by a menu, dropped or dictated comes without any.
    holder.addEventListener("input", (event) => event.target.dispatchEvent(new Event("search")));
    // A large table is loaded when it comes near.
    new IntersectionObserver((seen, observer) => {
      if (!seen.some((one) => one.isIntersecting)) return;
      observer.disconnect();
      chooseExperiments().then(() => show(chosen())).catch(said);
    }, { rootMargin: "1000px" }).observe(holder);
  }
}
