export { default } from "./Cache.svelte";
