// The cases that are folded at first: each is drawn when it is unfolded, from its runs and the distributions in the page.
{
  // One trial in full, the same lines of the others faintly.
  async function panelsOf({ runs, drawn, shown, published }) {
    const [full, ...others] = await Promise.all([drawn, ...runs.filter((run) => run !== drawn)].map(runOf));
    return { warmup: full.warmup_s, panels: full.panels.filter((panel) => shown.includes(panel.title)).map((panel) => {
      const faint = others.flatMap((other) => {
        const same = other.panels.find((one) => one.title === panel.title);
        return (same?.lines ?? []).filter((one) => !one.name.startsWith("capacity"))
          .map((one) => ({ ...one, faint: true, y: full.time.map((_, place) => one.y[place] ?? null) }));
      });
      const means = published.filter((mean) => mean.panel === panel.title)
        .map(({ name, value }) => ({ name: `${name}, published`, y: full.time.map((time) => (time > full.warmup_s ? value : null)), colour: null, dash: [1, 4] }));
      return { ...panel, x: full.time, lines: [...faint, ...panel.lines, ...means] };
    }) };
  }

  function delayPanels(delays) {
    return delays.flatMap(({ label, titles, lines }) => titles.map((title, tail) => {
      const [x, ...parts] = uPlot.join(lines.map((one) => [one.x, tail ? one.y.map((part) => (part < 100 ? 100 - part : null)) : one.y]));
      return { title, unit: "%", label, x, xLog: true, yLog: tail === 1, lines: lines.map(({ name, colour, dash }, place) => ({ name, colour, dash, y: parts[place] })) };
    }));
  }

  async function draw(details) {
    const holder = details.querySelector(":scope > .drawn");
    const note = details.querySelector(":scope > .note");
    if (!holder || charts.has(holder) || !details.open) return;
    const one = index.cases[Number(holder.dataset.case)];
    try {
      const { panels, warmup } = await panelsOf(one);
      if (!panels.length) note.textContent = "This case has no time series.";
      const [time, delays] = [element("div", null), element("div", null)];
      delays.className = "side-by-side";
      holder.replaceChildren(time, delays);
      drawCharts(time, panels, { key: `case-${holder.dataset.case}`, warmup });
      for (const panel of delayPanels(one.delays)) {
        const place = element("div", null);
        delays.append(place);
        drawCharts(place, [panel], {});
      }
      charts.set(holder, { made: [], again: () => {} });
    } catch (error) {
      note.textContent = `The case cannot be drawn: ${error.message}.`;
    }
  }

  for (const details of document.querySelectorAll("details.case")) {
    details.addEventListener("toggle", () => draw(details));
    draw(details);
  }
}
