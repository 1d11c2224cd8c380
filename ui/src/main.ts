// Entry point: finds the server, opens the session, then mounts the app once the language is known.
import { mount } from "svelte";

import App from "./app/App.svelte";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/controls.css";
import "./styles/shell.css";
import "./styles/chat.css";
import "./styles/narrow.css";

const target = document.getElementById("app");
if (target === null) throw new Error("index.html has no #app");
mount(App, { target });
