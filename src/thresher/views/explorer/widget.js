// The page in a frame of a notebook; questions go to the kernel and answers back.

function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts allow-downloads");
  frame.style.cssText = `width: 100%; border: 1px solid #ccc; height: ${model.get("height")}px`;
  frame.title = "Thresher explorer";
  const asked = (event) => {
    if (event.source === frame.contentWindow) model.send(event.data);
  };
  const told = (message, buffers) => {
    const bytes = buffers?.length ? new Uint8Array(buffers[0].buffer, buffers[0].byteOffset,
      buffers[0].byteLength).slice().buffer : undefined;
    frame.contentWindow?.postMessage({ ...message, bytes }, "*");
  };
  addEventListener("message", asked);
  model.on("msg:custom", told);
  frame.srcdoc = model.get("page");
  el.append(frame);
  return () => {
    removeEventListener("message", asked);
    model.off("msg:custom", told);
  };
}

export default { render };
