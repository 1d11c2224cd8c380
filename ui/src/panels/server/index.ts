export { default } from "./Server.svelte";
