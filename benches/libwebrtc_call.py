"""A call with libwebrtc, one way: `server PORT` answers, `client ADDRESS PORT SECONDS CC MBPS` sends pictures of noise.

Each end is a program of a flow with `kind = "program"`. Offer and answer cross a TCP connection, and candidates are
those of the host. The pictures are noise that an encoder can bring down to any of these rates without a change of size.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

CC = {
    "gcc": {},
    "scream": {"WebRTC-RFC8888CongestionControlFeedback": "Enabled,offer:true", "WebRTC-Bwe-ScreamV2": "Enabled"},
}
WIDTH, HEIGHT, FPS = 640, 360, 30


def libwebrtc(cc: str) -> Any:
    """The package, with the field trials of a congestion control."""
    import webrtc

    webrtc.allow_loopback()  # in the laboratory a host has its address on "lo"
    webrtc.field_trials.update(CC[cc])
    return webrtc


async def gathered(pc: Any) -> bytes:
    """The description of this end, with all its candidates."""
    while str(pc.ice_gathering_state) != "complete":
        await asyncio.sleep(0.02)
    lines = pc.local_description.sdp.splitlines()
    sdp = "\r\n".join(line for line in lines if "127.0.0.1 " not in line or not line.startswith("a=candidate")) + "\r\n"
    return json.dumps({"type": str(pc.local_description.type), "sdp": sdp}).encode() + b"\n"


async def described(webrtc: Any, pc: Any, reader: asyncio.StreamReader) -> None:
    """Takes the description of the other end."""
    told = json.loads(await reader.readline())
    await pc.set_remote_description(webrtc.RTCSessionDescription(told["type"], told["sdp"]))


async def serve(port: int) -> None:
    """Answers one call."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        webrtc = libwebrtc((await reader.readline()).decode().strip())
        pc = webrtc.RTCPeerConnection()
        await described(webrtc, pc, reader)
        await pc.set_local_description(await pc.create_answer())
        writer.write(await gathered(pc))
        await reader.read()  # until the client leaves
        pc.close()
        done.set()

    done = asyncio.Event()
    server = await asyncio.start_server(answer, "0.0.0.0", port, limit=1 << 20)  # noqa: S104
    async with server:
        await done.wait()


async def call(address: str, port: int, seconds: float, cc: str, mbps: float) -> None:
    """Sends pictures for so long, and prints what the congestion control says."""
    import numpy as np

    webrtc = libwebrtc(cc)
    reader, writer = await asyncio.open_connection(address, port, limit=1 << 20)
    writer.write(f"{cc}\n".encode())
    pc = webrtc.RTCPeerConnection()
    generator = webrtc.VideoTrackGenerator()
    sender = pc.add_track(generator.track)
    await pc.set_local_description(await pc.create_offer())
    writer.write(await gathered(pc))
    await described(webrtc, pc, reader)
    parameters = sender.get_parameters()
    parameters.encodings[0].max_bitrate = int(mbps * 1e6)
    parameters.degradation_preference = "maintain-resolution"
    await sender.set_parameters(parameters)
    rng = np.random.default_rng(1)
    pictures = []
    for _ in range(16):
        noise = rng.normal(128, 6, WIDTH * HEIGHT).clip(0, 255).astype(np.uint8)
        pictures.append(noise.tobytes() + bytes([128]) * (WIDTH * HEIGHT // 2))
    frames = generator.writable.get_writer()
    loop = asyncio.get_running_loop()
    start = loop.time()
    for n in range(int(seconds * FPS)):
        await asyncio.sleep(max(start + n / FPS - loop.time(), 0))
        init = webrtc.VideoFrameBufferInit(
            format="I420", coded_width=WIDTH, coded_height=HEIGHT, timestamp=int(n * 1e6 / FPS)
        )
        await frames.write(webrtc.VideoFrame(pictures[n % 16], init))
        if n % (FPS // 3) == 0:
            for one in (await pc.get_stats()).values():
                if bps := getattr(one, "available_outgoing_bitrate", None):
                    print(json.dumps({"time_s": n / FPS, "target_mbps": bps * 1e-6}))
    sys.stdout.flush()
    writer.close()
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "server":
        asyncio.run(serve(int(sys.argv[2])))
    else:
        address, port, seconds, cc, mbps = sys.argv[2:]
        asyncio.run(call(address, int(port), float(seconds), cc, float(mbps)))
