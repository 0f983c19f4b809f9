// Where the site lies: built, its scripts are in a folder of the site's own, wherever a host has put that.
const here = import.meta.url;

/** The site's root, with a slash at the end. */
export const ROOT = import.meta.env.DEV ? "/" : new URL("../", here).href;
