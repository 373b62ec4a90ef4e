// Result tables and runs: in the page, or in scripts beside it, which is what a page from a disk can load.
const index = JSON.parse(document.getElementById("index").textContent);
const loaded = { tables: new Map(), runs: new Map() };
window.l4slab = {
  table: (name, table) => loaded.tables.set(name, table),
  run: (id, packed) => loaded.runs.set(id, packed),
};

function load(address) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = address;
    script.onload = () => { script.remove(); resolve(); };
    script.onerror = () => { script.remove(); reject(new Error(`${address} is not beside this page`)); };
    document.head.append(script);
  });
}

async function tableOf(name) {
  if (!loaded.tables.has(name)) {
    const { file } = index.tables.find((table) => table.name === name);
    if (file) await load(file);
    else loaded.tables.set(name, JSON.parse(document.getElementById(`table-of-${name}`).textContent));
  }
  return loaded.tables.get(name);
}

async function runOf(id) {
  const file = `runs/${index.form}/${encodeURIComponent(id)}.js`;
  if (!index.runs && !loaded.runs.has(id)) await load(file);
  const packed = index.runs ? index.runs[id] : loaded.runs.get(id);
  if (packed === undefined) throw new Error(`there is no run ${id} in these results`);
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const run = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
  // A flow has the same look in every figure of the page.
  for (const line of run.panels.flatMap((panel) => panel.lines)) {
    if (line.cc !== undefined) Object.assign(line, index.looks[line.name]?.[line.cc] ?? { colour: null, dash: [] });
  }
  return run;
}

function valueOf(column, row) {
  return column.levels ? column.levels[column.codes[row]] : column.values[row];
}

// A number to three significant digits, as in the rest of the page; of delays (ms), 0 is less than a hundredth.
function numberText(value, isDelay = false) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return String(value);
  if (Math.abs(value) < (isDelay ? 0.01 : 1e-9)) return "0";
  if (Number.isInteger(value) || Math.abs(value) >= 100) return Math.round(value).toLocaleString("en").replaceAll(",", "\u202f").replace("-", "\u2212");
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(digits, 6)).replace("-", "\u2212");
}

// Every run with what tells it from the others: its case (experiment and levels) and its trial.
let runList = null;
async function allRuns() {
  if (runList) return runList;
  const table = await tableOf("flows");
  const column = Object.fromEntries(table.columns.map((one) => [one.id, one]));
  const factors = table.columns.slice(1, table.columns.findIndex((one) => one.id === "trial"));
  const found = new Map();
  const experiments = column.experiment.levels.length;
  for (let row = 0; row < table.rows; row++) {
    const id = valueOf(column.run, row);
    if (found.has(id)) continue;
    const levels = factors.map((factor) => [factor.title, valueOf(factor, row)]).filter(([, level]) => level !== null);
    const label = levels.map(([name, level]) => `${name} = ${level}`).join(", ");
    const experiment = valueOf(column.experiment, row);
    found.set(id, {
      id, trial: valueOf(column.trial, row), case: JSON.stringify([experiment, ...levels]),
      label: [experiments > 1 || !label ? experiment : "", label].filter(Boolean).join(": "),
    });
  }
  runList = found;
  return runList;
}
