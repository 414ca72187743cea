import studio from "/studio.js";

const token = new URLSearchParams(location.search).get("token") ?? "";

studio.render({
  model: {
    hash: true,
    async answer(wish, signal) {
      const reply = await fetch("/answer", {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-Logofair-Token": token },
        body: JSON.stringify(wish),
        signal,
      });
      return reply.status === 204 ? null : reply.json();
    },
  },
  el: document.getElementById("studio"),
});
