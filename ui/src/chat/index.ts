export { default } from "./ChatScreen.svelte";
