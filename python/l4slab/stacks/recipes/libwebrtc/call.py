"""Calls of one way with libwebrtc: `server CC` answers, `client ADDRESS NUMBER CC RATE_MIN RATE_START RATE_MAX FPS` sends.

Rates are bit/s. The pictures are noise that the encoder (VP8) can bring to any of these rates without a change of size.
Each end writes a line per frame, the client when it is encoded, which takes no time, and the server when all of it is
there: the call's number, the RTP timestamp, ns of the realtime clock, bytes. The client's first line is about its start.
Offer and answer cross a TCP connection, and candidates are those of the host.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import re
import sys
import time
from typing import Any

import numpy as np
import webrtc

PORT = 5055
FIELD_TRIALS = {
    "gcc": {},
    "scream": {"WebRTC-RFC8888CongestionControlFeedback": "Enabled,offer:true", "WebRTC-Bwe-ScreamV2": "Enabled"},
}
# Noise of this size at 30 frames per second fills 4 Mbit/s, and is brought down to 100 kbit/s.
WIDTH, HEIGHT, FILLED_BPS, DEVIATION = 640, 360, 4e6, 6
PICTURES = 16


def prepare(cc: str) -> None:
    """Before the first connection: the congestion control."""
    webrtc.allow_loopback()  # in the laboratory a host has its address on "lo"
    webrtc.field_trials.update(FIELD_TRIALS[cc])


def telling(number: int) -> Any:
    """A transform that writes a line about each frame of a call."""

    async def tell(event: Any) -> None:
        frames = event.transformer.writable.get_writer()
        async for frame in event.transformer.readable:
            print(number, frame.get_metadata().rtp_timestamp, time.time_ns(), len(frame.data), flush=True)
            await frames.write(frame)

    return webrtc.RTCRtpScriptTransform(tell)


def noise(rate_bps: float, fps: float) -> tuple[int, int, list[bytes]]:
    """Width, height and I420 data of pictures that fill a rate."""
    scale = math.sqrt(max(rate_bps / FILLED_BPS * 30 / fps, 1))
    width, height = (math.ceil(side * scale / 8) * 8 for side in (WIDTH, HEIGHT))
    rng = np.random.default_rng(1)
    luma = (rng.normal(128, DEVIATION, width * height).clip(0, 255).astype(np.uint8) for _ in range(PICTURES))
    return width, height, [one.tobytes() + bytes([128]) * (width * height // 2) for one in luma]


async def gathered(pc: Any) -> bytes:
    """The description of this end, with all its candidates."""
    while str(pc.ice_gathering_state) != "complete":
        await asyncio.sleep(0.02)
    lines = pc.local_description.sdp.splitlines()
    sdp = "\r\n".join(line for line in lines if "127.0.0.1 " not in line or not line.startswith("a=candidate")) + "\r\n"
    return json.dumps({"type": str(pc.local_description.type), "sdp": sdp}).encode() + b"\n"


async def described(pc: Any, reader: asyncio.StreamReader, rates: dict[str, int] | None = None) -> None:
    """Takes the description of the other end, in which libwebrtc finds its own rates, kbit/s."""
    told = json.loads(await reader.readline())
    sdp = told["sdp"]
    if rates is not None:
        words = ";".join(f"x-google-{name}-bitrate={kbit}" for name, kbit in rates.items())
        vp8 = re.search(r"a=rtpmap:(\d+) VP8/90000\r\n", sdp)
        assert vp8 is not None
        sdp = sdp.replace(vp8[0], f"{vp8[0]}a=fmtp:{vp8[1]} {words}\r\n")
    await pc.set_remote_description(webrtc.RTCSessionDescription(told["type"], sdp))


async def serve() -> None:
    """Answers calls until it is ended."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        transform = telling(int(await reader.readline()))
        pc = webrtc.RTCPeerConnection()
        pc.on("track", lambda event: setattr(event.receiver, "transform", transform))
        await described(pc, reader)
        await pc.set_local_description(await pc.create_answer())
        writer.write(await gathered(pc))
        await reader.read()  # until the client leaves

    server = await asyncio.start_server(answer, "0.0.0.0", PORT, limit=1 << 20)  # noqa: S104
    await server.serve_forever()


async def call(address: str, number: int, rate_min: int, rate_start: int, rate_max: int, fps: float) -> None:
    """Sends frames until it is ended."""
    reader, writer = await asyncio.open_connection(address, PORT, limit=1 << 20)
    writer.write(f"{number}\n".encode())
    pc = webrtc.RTCPeerConnection()
    generator = webrtc.VideoTrackGenerator()
    sender = pc.add_track(generator.track)
    sender.transform = telling(number)
    await pc.set_local_description(await pc.create_offer())
    writer.write(await gathered(pc))
    await described(pc, reader, {"min": rate_min // 1000, "start": rate_start // 1000, "max": rate_max // 1000})
    parameters = sender.get_parameters()
    parameters.encodings[0].max_bitrate = rate_max
    parameters.degradation_preference = "maintain-resolution"
    await sender.set_parameters(parameters)
    width, height, pictures = noise(rate_max, fps)
    frames = generator.writable.get_writer()
    loop = asyncio.get_running_loop()
    start = loop.time()
    for index in itertools.count():
        await asyncio.sleep(max(start + index / fps - loop.time(), 0))
        init = webrtc.VideoFrameBufferInit(
            format="I420", coded_width=width, coded_height=height, timestamp=round(index * 1e6 / fps)
        )
        await frames.write(webrtc.VideoFrame(pictures[index % PICTURES], init))


if __name__ == "__main__":
    if sys.argv[1] == "server":
        prepare(sys.argv[2])
        asyncio.run(serve())
    else:
        address, number, cc, *rates, fps = sys.argv[2:]
        print(number, 0, time.time_ns(), 0, flush=True)
        prepare(cc)
        asyncio.run(call(address, int(number), *map(int, rates), float(fps)))
