// Panels of lines, in the page's ink; one cursor for all panels with the same key.
const charts = new Map();
let onPaper = false;

function element(tag, text, ...children) {
  const made = document.createElement(tag);
  if (text !== null) made.textContent = text;
  made.append(...children);
  return made;
}

// The largest value, and where that is a peak before the measured interval, the end of the axis (as in the figures).
function limits(x, lines, warmup) {
  let [largest, usual] = [0, 0];
  for (const { y } of lines) {
    y.forEach((value, place) => {
      largest = Math.max(largest, value ?? 0);
      if (x[place] >= warmup) usual = Math.max(usual, value ?? 0);
    });
  }
  return { largest, end: usual > 0 && usual * 1.6 < largest ? usual * 1.6 : Infinity };
}

// The series of a line, and of the area around it, which has two more without a stroke.
function seriesOf({ name, y, colour, dash, faint, marked, low, high }, { ink, steps, spanGaps }) {
  const stroke = colour ?? ink;
  const there = y.map((value, place) => (value === null ? -1 : place)).filter((place) => place >= 0);
  // A value between gaps is no line, and is seen only as a point. Of few values, each is marked.
  const few = marked && !steps && there.length <= 25;
  const alone = few ? there : there.filter((place) => !spanGaps && (y[place - 1] ?? null) === null && (y[place + 1] ?? null) === null);
  const own = {
    label: name, stroke, value: (_, at) => numberText(at), width: faint ? 0.8 : 1.3, alpha: faint ? 0.25 : 1, ...(faint && { class: "faint" }),
    points: { show: alone.length > 0, filter: () => alone, size: 5, fill: stroke }, dash: faint ? [] : dash, spanGaps, ...(steps && { paths: uPlot.paths.stepped({ align: 1 }) }),
  };
  const edge = { label: name, stroke: "transparent", width: 0, points: { show: false }, class: "faint", spanGaps };
  return low && high ? { series: [own, edge, edge], data: [y, high, low], fill: `color-mix(in srgb, ${stroke} 25%, transparent)` } : { series: [own], data: [y] };
}

// Published values: hollow diamonds with their reading error.
function drawMarks(chart, marks, ink) {
  const { ctx } = chart;
  const size = 4.5 * devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = ink;
  ctx.lineWidth = devicePixelRatio;
  for (const { x, y, error } of marks) {
    const [left, top] = [chart.valToPos(x, "x", true), chart.valToPos(y, "y", true)];
    ctx.beginPath();
    if (error) {
      ctx.moveTo(left, chart.valToPos(y - error, "y", true));
      ctx.lineTo(left, chart.valToPos(y + error, "y", true));
    }
    ctx.moveTo(left, top - size);
    for (const [right, down] of [[size, 0], [0, size], [-size, 0], [0, -size]]) ctx.lineTo(left + right, top + down);
    ctx.stroke();
  }
  ctx.restore();
}

// The numbers at a logarithmic axis: powers of ten, and where these are few, others.
function logSplits(chart, axis, min, max) {
  const decade = chart.bbox[chart.axes[axis].side % 2 ? "height" : "width"] / devicePixelRatio / Math.log10(max / min);
  const found = (digits) => {
    const values = [];
    for (let power = Math.floor(Math.log10(min)); power <= Math.log10(max); power++) {
      for (const digit of digits) values.push(Number(`${digit}e${power}`));
    }
    return values.filter((value) => value >= min && value <= max);
  };
  const choices = [[1], [1, 2, 5], [1, 2, 3, 4, 5, 6, 7, 8, 9]].map(found);
  if (decade > 140 && choices[1].length > 1) return choices[1];
  return choices.find((values) => values.length > 1) ?? [min, max];
}

const tickText = (value) => (value === null ? "" : value.toLocaleString("en", { maximumFractionDigits: 6 }).replaceAll(",", "\u202f"));

// The ends of the y axis: zero and a little above the largest value, unless there are `ends`.
function rangeOf({ yLog, ends, marks = [] }, warmup, peak) {
  if (ends) return () => ends;
  const known = marks.flatMap(({ y, error }) => [y - error, y + error]);
  if (yLog) return undefined;
  return (chart, low, high) => {
    const top = Math.max(chart.scales.x.max > warmup ? Math.min(high ?? 0, peak) : high ?? 0, ...known);
    const least = Math.min(0, low ?? 0, ...known);
    return [least * 1.05, top > 0 ? top * 1.05 : least < 0 ? 0 : 1];
  };
}

// Draws `panels` below each other: { title, unit, x, lines: [{ name, y, colour, dash, faint, marked, low, high }] }, and where they
// are wanted { label, xLog, yLog, xEnds, ends, steps, marks, spanGaps, legend }; the time before `warmup` is shaded.
function drawCharts(holder, panels, { key, warmup = 0 }) {
  clearCharts(holder);
  const style = getComputedStyle(document.body);
  const [ink, dim, grid] = onPaper ? ["#000", "#444", "#bbb"] : [style.color, style.getPropertyValue("--dim"), style.getPropertyValue("--line")];
  const line = { stroke: grid, width: 1 };
  const axis = { stroke: dim, grid: line, ticks: line };
  const shade = (chart) => {
    const { left, top, height } = chart.bbox;
    chart.ctx.fillStyle = "rgb(128 128 128 / 0.12)";
    chart.ctx.fillRect(left, top, Math.max(0, chart.valToPos(warmup, "x", true) - left), height);
  };
  const made = panels.map((panel, number) => {
    const { title, unit, x, lines, label = "time (s)", xLog = false, yLog = false, xEnds, steps, marks = [], spanGaps = xLog, legend = true } = panel;
    const place = element("div", null);
    const { largest, end } = limits(x, lines, warmup);
    const heading = element("h3", unit ? `${title} (${unit})` : title);
    if (end < largest) heading.append(element("small", ` peak before: ${numberText(largest)}`));
    if (heading.textContent) holder.append(heading);
    holder.append(place);
    const last = number === panels.length - 1;
    const ticks = (_, values) => values.map(tickText);
    const parts = lines.map((one) => seriesOf(one, { ink, steps, spanGaps }));
    const bands = [];
    let series = 1;
    for (const { data, fill } of parts) {
      if (fill) bands.push({ series: [series + 1, series + 2], fill });
      series += data.length;
    }
    const range = rangeOf(panel, warmup, end);
    return new uPlot({
      width: holder.clientWidth,
      height: last ? 190 : 170,
      legend: { show: legend, markers: { width: 2, dash: (chart, number) => (chart.series[number].dash?.length ? "dashed" : "solid") } },
      scales: { x: { time: false, distr: xLog ? 3 : 1, ...(xEnds && { range: (chart, low, high) => (low > x[0] || high < x.at(-1) ? [low, high] : xEnds) }) }, y: { distr: yLog ? 3 : 1, ...(range && { range }) } },
      cursor: { ...(key && { sync: { key } }), drag: { x: true, y: false } },
      hooks: { drawClear: warmup ? [shade] : [], draw: marks.length ? [(chart) => drawMarks(chart, marks, ink)] : [] },
      axes: [
        { ...axis, size: 30, values: ticks, ...(xLog && { splits: logSplits, filter: (_, splits) => splits }), ...(last && label && { label, labelSize: 22 }) },
        { ...axis, size: 58, values: ticks, ...(yLog && { splits: logSplits, filter: (_, splits) => splits }) },
      ],
      bands,
      series: [{ label: "\u200b", value: (_, at) => (at === null || at === undefined ? "" : `${label}: ${numberText(at)}`) }, ...parts.flatMap((one) => one.series)],
    }, [x, ...parts.flatMap((one) => one.data)], place);
  });
  charts.set(holder, { made, again: () => drawCharts(holder, panels, { key, warmup }) });
}

function clearCharts(holder) {
  charts.get(holder)?.made.forEach((chart) => { if (chart.cursor.sync) uPlot.sync(chart.cursor.sync.key).unsub(chart); chart.destroy(); });
  charts.delete(holder);
  holder.replaceChildren();
}

function redraw() {
  [...charts.values()].forEach(({ again }) => again());
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
for (const [event, is] of [["beforeprint", true], ["afterprint", false]]) {
  addEventListener(event, () => {
    onPaper = is;
    redraw();
  });
}
addEventListener("resize", () => charts.forEach(({ made }, holder) => {
  made.forEach((chart) => chart.setSize({ width: holder.clientWidth, height: chart.height }));
}));
