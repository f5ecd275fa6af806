// Curves of a recording without a video.

const COLOURS = ["#4477aa", "#cc6677", "#228833", "#aa7700", "#66ccee", "#aa3377", "#999933",
  "#882255"];

export function drawSignals(canvas, { curves, names, every }, duration) {
  const width = 1600;
  const height = 800;
  Object.assign(canvas, { width, height });
  const pen = canvas.getContext("2d");
  const row = height / curves.length;
  pen.lineWidth = 2;
  pen.font = "22px system-ui, sans-serif";
  curves.forEach((curve, place) => {
    pen.strokeStyle = pen.fillStyle = COLOURS[place % COLOURS.length];
    pen.beginPath();
    curve.forEach((value, at) => {
      const x = (at * every * width) / (duration || 1);
      const y = (place + 0.92 - 0.84 * value) * row;
      if (at) pen.lineTo(x, y);
      else pen.moveTo(x, y);
    });
    pen.stroke();
    pen.fillText(names[place], 8, place * row + 26);
  });
}
