// A page without a room of its own: only the frame is live.

import { startFrame } from "./banner.js";

startFrame();
