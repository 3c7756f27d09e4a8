// Browsers start no worker from a file. On pages opened as files, the worker of the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.appendChild(this.frame)
      const inside = this.frame.contentWindow
      const opened = this.frame.contentDocument
      inside.postMessage = data => this.answer(data)
      inside.importScripts = (...urls) => Promise.all(urls.map(one => load(opened, new URL(one, url).href)))
      load(opened, url).then(() => {
        this.ready = true
        this.waiting.forEach(data => this.postMessage(data))
      })
    }
    answer(data) {
      const event = new MessageEvent("message", { data })
      this.dispatchEvent(event)
      if (this.onmessage) this.onmessage(event)
    }
    postMessage(data) {
      if (!this.ready) return void this.waiting.push(data)
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }))
    }
    terminate() {
      this.frame.remove()
    }
  }
  const load = (opened, url) =>
    new Promise((resolve, reject) => {
      const script = opened.createElement("script")
      script.src = url
      script.onload = resolve
      script.onerror = reject
      opened.body.appendChild(script)
    })
}
