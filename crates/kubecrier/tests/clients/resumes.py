"""The official Python client: calls tools and prints their answers.

Arguments: the URL, era (legacy), calls as JSON.
"""

import asyncio
import json
import sys

from mcp import Client


async def main(url: str, era: str, calls: str) -> None:
    async with Client(url, mode=era) as client:
        answers = [
            await client.call_tool(call["name"], call["arguments"]) for call in json.loads(calls)
        ]
        found = [
            answer.model_dump(mode="json", by_alias=True, exclude_none=True) for answer in answers
        ]
        print(json.dumps({"answers": found}))


asyncio.run(main(*sys.argv[1:]))
