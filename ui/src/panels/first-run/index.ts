export { default } from "./FirstRun.svelte";
