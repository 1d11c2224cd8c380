export { default } from "./Models.svelte";
