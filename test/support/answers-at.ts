import { connect } from "node:net";

/** Whether anybody listens on this port of this machine. */
export async function answersAt(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  try {
    return await new Promise((resolve) => {
      socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    });
  } finally {
    socket.destroy();
  }
}
