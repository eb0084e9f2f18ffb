"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const named = document.querySelector("main").dataset.provider;
  const path = location.pathname;
  const api = location.origin + path.slice(0, path.indexOf("/connect/")) + "/api/v1"; // a proxy may have put it below a path
  const steps = ["ask-key", "ask-method", "device", "manual", "token"];
  let key = ""; // nowhere else, and empty again at the end
  let provider = null;

  const show = (step) => {
    for (const each of steps) at(each).hidden = each !== step;
    const field = step && at(step).querySelector("input, textarea, a");
    if (field) field.focus();
  };
  const say = (text, kind = "") => {
    at("message").textContent = text;
    at("message").className = kind;
  };
  const pause = (seconds) => new Promise((go) => setTimeout(go, seconds * 1000));

  async function ask(method, where, body) {
    const headers = { authorization: `Bearer ${key}` };
    if (body) headers["content-type"] = "application/json";
    const response = await fetch(api + where, {
      method, headers, body: body && JSON.stringify(body), credentials: "omit", cache: "no-store", redirect: "error",
    });
    const answer = await response.json();
    if (response.ok) return answer;
    const { code, message, hint } = answer.error;
    throw Object.assign(new Error(hint ? `${message}. ${hint}` : message), {
      code, status: response.status, after: Number(response.headers.get("retry-after")),
    });
  }

  async function found() {
    const every = [];
    for (let after = ""; after !== null; ) {
      const page = await ask("GET", `/sign-ins/providers?limit=500${after && `&after=${encodeURIComponent(after)}`}`);
      every.push(...page.data);
      after = page.next;
    }
    const exact = every.filter((each) => each.id === named);
    const short = every.filter((each) => each.id.endsWith(`/${named}`));
    const [only, more] = exact.length ? exact : short;
    if (!only) throw new Error(`There is no provider ${named} to connect, or its daemon has not answered yet.`);
    if (more) throw new Error(`Several daemons have a provider ${named}. Open ${short.map((each) => `/connect/${each.id}`).join(" or ")}.`);
    return only;
  }

  function over(connection) {
    key = "";
    show("");
    whose(connection);
    say(`${connection.provider} is connected. You can close this page.`, "good");
  }

  function failed(text) {
    key = "";
    show("");
    say(text, "bad");
    at("again").hidden = false;
  }

  function whose(row) {
    at("whose").textContent = row.user ? "It is for your own calls alone." : row.account ? "It is for all calls of your account." : "It is for everybody's calls on this server.";
    at("whose").hidden = false;
  }

  function target(link, url) {
    if (!/^https?:\/\//i.test(url)) throw new Error("The provider gave an address that cannot be opened.");
    link.href = url;
  }

  function ended(signIn) {
    if (signIn.status === "complete") over(signIn);
    else failed(signIn.status === "expired" ? "That took too long, and the sign-in has expired." : "The sign-in was refused.");
  }

  async function begin(method) {
    let signIn = await ask("POST", "/sign-ins", { provider: provider.id, method });
    whose(signIn);
    say("");
    if (method === "manual") {
      target(at("manual-link"), signIn.authorization_url);
      at("manual").onsubmit = submitted(async () => {
        signIn = await ask("POST", `/sign-ins/${signIn.id}/complete`, { pasted: at("pasted").value });
        at("pasted").value = "";
        ended(signIn);
      });
      show("manual");
      return;
    }
    at("user-code").textContent = signIn.user_code;
    at("device-link").textContent = signIn.verification_uri;
    target(at("device-link"), signIn.verification_uri_complete || signIn.verification_uri);
    show("device");
    for (let wait = signIn.interval; signIn.status === "pending"; ) {
      await pause(wait);
      wait = signIn.interval;
      try {
        signIn = await ask("POST", `/sign-ins/${signIn.id}/poll`);
        say("");
      } catch (error) {
        const passing = error.status === undefined || error.status === 429 || error.status >= 500;
        if (!passing || Date.now() / 1000 > signIn.expires_at) throw error;
        if (error.status === 429) wait = error.after || wait;
        else say(`${error.message} Trying again.`);
      }
    }
    ended(signIn);
  }

  /** What a form does: once at a time, and with what went wrong in words. */
  function submitted(work) {
    return async (event) => {
      event.preventDefault();
      const button = event.target.querySelector("button");
      button.disabled = true;
      say("");
      try {
        await work();
      } catch (error) {
        if (error.code === "bad_request" || error.code === "unauthenticated") say(error.message, "bad");
        else failed(error.message);
      } finally {
        button.disabled = false;
      }
    };
  }

  at("ask-key").onsubmit = submitted(async () => {
    key = at("key").value.trim();
    if (!/^[\x21-\x7e]+$/.test(key)) throw Object.assign(new Error("That is no key."), { code: "bad_request" });
    provider = await found();
    at("key").value = "";
    const methods = provider.methods.filter((each) => each === "device" || each === "manual");
    if (provider.credential === "token") show("token");
    else if (methods.length === 1) await begin(methods[0]);
    else if (methods.length || !provider.methods.length) {
      at("ask-method").querySelector("input").checked = true;
      show("ask-method");
    } else failed(`${provider.id} is connected from a terminal only: trunkline connect ${provider.id}`);
  });

  at("ask-method").onsubmit = submitted(() => begin(at("ask-method").querySelector("input:checked").value));

  at("token").onsubmit = submitted(async () => {
    const made = await ask("POST", "/connections", {
      provider: provider.id, token: at("secret").value, token_type: at("token-type").value.trim(),
    });
    at("secret").value = "";
    over(made);
  });

  at("again").onclick = () => location.reload();
  addEventListener("pagehide", () => { key = ""; }); // a page that is kept for "back" keeps no key
  show("ask-key");
})();
