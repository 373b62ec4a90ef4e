// The result tables: sorted, filtered, with the columns that are wanted; a row opens its run.
{
  const holder = document.getElementById("grid");
  const printed = 200;  // rows on paper at most

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
  function rowsOf(table, means) {
    const run = table.columns.find((column) => column.id === "run");
    if (!means) {
      return Array.from({ length: table.rows }, (_, row) => Object.fromEntries(
        table.columns.map((column, place) => [`c${place}`, valueOf(column, row)]).concat([["id", row], ["run", valueOf(run, row)]])));
    }
    const keys = table.columns.filter((column) => column.key && column.id !== "run" && column.id !== "trial");
    const groups = new Map();
    for (let row = 0; row < table.rows; row++) {
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

  function cellText(cell, { place }) {
    const value = cell.getValue();
    const text = document.createElement("span");
    text.textContent = numberText(value);
    const range = cell.getData()[`r${place}`];
    if (range && numberText(range[0]) !== numberText(range[1])) {
      const spread = document.createElement("small");
      spread.textContent = `${numberText(range[0])}–${numberText(range[1])}`;
      text.append(spread);
    }
    return text;
  }

  function columnsOf(table, means) {
    return table.columns.map((column, place) => {
      const number = !column.levels;
      return {
        title: column.title, headerTooltip: column.id, field: `c${place}`, visible: column.shown && !(means && column.id === "trial"),
        headerFilter: "input", headerFilterLiveFilter: true, headerFilterFunc: matches, headerFilterFuncParams: { number },
        headerFilterPlaceholder: number && !column.key ? "> …" : "", sorter: number ? "number" : "alphanum",
        hozAlign: number && !column.key ? "right" : "left", headerHozAlign: number && !column.key ? "right" : "left",
        formatter: column.key ? "plaintext" : cellText, formatterParams: { place },
        minWidth: 70, headerSortTristate: true,
      };
    });
  }

  let grid = null;
  async function show(name) {
    const table = await tableOf(name);
    const several = new Set(table.columns.find((column) => column.id === "trial").values).size > 1;
    const box = document.querySelector("#means input");
    document.getElementById("means").hidden = !several;
    const means = several && box.checked;
    grid?.destroy();
    grid = new Tabulator(holder, {
      data: rowsOf(table, means), columns: columnsOf(table, means), layout: "fitDataFill", maxHeight: "min(40rem, 80vh)",
      placeholder: "No row passes the filters.", printAsHtml: true, printStyled: false, printRowRange: () => grid.getRows("active").slice(0, printed),
    });
    const count = () => {
      const active = grid.getDataCount("active");
      const all = grid.getDataCount();
      document.getElementById("shown").textContent = active === all ? `${all} rows` : `${active} of ${all} rows`;
    };
    grid.on("dataFiltered", () => setTimeout(count));
    grid.on("tableBuilt", count);
    grid.on("rowClick", (_, row) => { location.hash = `run=${row.getData().run}`; });
    chooser(table, means);
    for (const button of document.querySelectorAll("button[data-table]")) {
      button.setAttribute("aria-pressed", String(button.dataset.table === name));
    }
    window.l4slab.order = () => [...new Set(grid.getData("active").map((row) => row.run))];
  }

  function chooser(table, means) {
    document.getElementById("columns").replaceChildren(...table.columns.map((column, place) => {
      const box = document.createElement("input");
      box.type = "checkbox";
      box.checked = column.shown && !(means && column.id === "trial");
      box.addEventListener("change", () => grid.toggleColumn(`c${place}`));
      const label = document.createElement("label");
      label.append(box, ` ${column.title}`);
      label.title = column.id;
      return label;
    }));
  }

  const chosen = () => document.querySelector('button[data-table][aria-pressed="true"]').dataset.table;
  const said = (error) => { holder.textContent = `The table cannot be shown: ${error.message}.`; };
  if (holder) {
    document.querySelector("#results .tools").hidden = false;
    for (const button of document.querySelectorAll("button[data-table]")) {
      button.addEventListener("click", () => show(button.dataset.table).catch(said));
    }
    document.querySelector("#means input").addEventListener("change", () => show(chosen()).catch(said));
    document.getElementById("csv").addEventListener("click", () => grid?.download("csv", `${chosen()}.csv`));
    // A large table is loaded when it comes near.
    new IntersectionObserver((seen, observer) => {
      if (!seen.some((one) => one.isIntersecting)) return;
      observer.disconnect();
      show(chosen()).catch(said);
    }, { rootMargin: "1000px" }).observe(holder);
  }
}
