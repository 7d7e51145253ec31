/** What the kubelet runs in every Pod beside its containers. */
export const sandboxImage = "lab.local/sandbox:1";

/** The executor's image without our sources: it keeps these layers where they are. */
export const baseImage = "lab.local/executor-base:1";

/** The controller's image of the sources at hand, where a test runs it in a Pod. */
export const controllerImage = "lab.local/controller:1";

/** The executor's image of the sources at hand. */
export const executorImage = "lab.local/executor:1";
