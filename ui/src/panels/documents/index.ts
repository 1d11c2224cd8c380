export { default } from "./Documents.svelte";
