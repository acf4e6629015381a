"use strict";
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const touch = window.matchMedia("(pointer: coarse)").matches;
  const shade = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Colours of the page, for every axis that a picture has.
  const themed = (layout) => {
    const colours = { font: { color: shade("--text") } };
    for (const name of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))) {
      colours[name + ".gridcolor"] = shade("--line");
      colours[name + ".zerolinecolor"] = shade("--line");
      colours[name + ".linecolor"] = shade("--line");
    }
    return colours;
  };

  const base = {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 52, r: 12, t: touch ? 76 : 40, b: 44 },
    hovermode: "closest",
    legend: { orientation: "h", x: 0, y: 1.01, yanchor: "bottom" },
    // On a phone a finger that moves scrolls the page; two fingers or the buttons zoom.
    dragmode: touch ? false : "zoom",
  };
  const config = {
    responsive: true,
    displaylogo: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
  };

  const plots = [...document.querySelectorAll(".plot")];
  // Not a style attribute, which the page's policy would have to allow everywhere.
  for (const element of plots) element.style.height = element.dataset.height + "px";
  const draw = async (element) => {
    const spec = JSON.parse(document.getElementById(element.id + "-data").textContent);
    const layout = { ...base, ...spec.layout };
    for (const name of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))) {
      layout[name] = { automargin: true, ...layout[name] };
    }
    await Plotly.newPlot(element, spec.data, layout, config);
    await Plotly.relayout(element, themed(layout));
    element.dataset.drawn = "yes";
  };

  const all = async () => {
    for (const element of plots) {
      await draw(element);
      // Let the page answer between two pictures.
      await new Promise((resolve) => setTimeout(resolve, 0));
    }
    document.documentElement.dataset.drawn = "yes";
  };
  dark.addEventListener("change", () => {
    for (const element of plots.filter((e) => e.dataset.drawn)) {
      Plotly.relayout(element, themed(element.layout));
    }
  });
  all();
})();
