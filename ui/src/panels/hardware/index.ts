export { default } from "./Hardware.svelte";
