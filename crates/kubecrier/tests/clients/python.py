"""The official Python client: connects, receives `list_changed` in the era that has sessions,
sets a level there, lists, calls, and over HTTP subscribes to events and receives one.

Arguments: target (an http URL, or a command line as JSON), era (legacy or auto),
calls as JSON. Prints one JSON object.
"""

import asyncio
import json
import sys
import warnings

from mcp import Client, StdioServerParameters

# What is deprecated is used on purpose; everything else that is printed is a complaint.
warnings.simplefilter("ignore", DeprecationWarning)
warnings.filterwarnings("ignore", message=".*deprecated.*")


async def main(target: str, era: str, calls: str) -> None:
    server = target if target.startswith("http") else StdioServerParameters(**json.loads(target))
    tools_changed, received = asyncio.Event(), asyncio.Event()

    async def on_message(message: object) -> None:
        if "tools/list_changed" in repr(message):
            tools_changed.set()
        if "kubernetes/events" in repr(message):
            received.set()

    async with Client(server, mode=era, message_handler=on_message) as client:
        if era == "legacy":
            await client.set_logging_level("info")
            await tools_changed.wait()
        tools = await client.list_tools()

        async def call_all() -> list:
            return [
                await client.call_tool(call["name"], call["arguments"]) for call in json.loads(calls)
            ]

        if era == "legacy":
            answers = await call_all()
        else:
            async with client.listen(tools_list_changed=True) as changes:

                async def note() -> None:
                    async for _change in changes:
                        tools_changed.set()

                noting = asyncio.create_task(note())
                answers = await call_all()
                noting.cancel()
        subscription = answers[-1].structured_content
        if target.startswith("http") and era == "legacy":
            await received.wait()
        elif target.startswith("http"):
            async with client.listen(resource_subscriptions=[subscription["resourceUri"]]) as news:
                # The first update marks the beginning.
                count = 0
                async for _update in news:
                    count += 1
                    if count == 2:
                        break
        found = {
            "server": client.server_info.name if client.server_info else None,
            "toolsChanged": tools_changed.is_set(),
            "tools": [tool.name for tool in tools.tools],
            "answers": [
                answer.model_dump(mode="json", by_alias=True, exclude_none=True)
                for answer in answers
            ],
        }
        print(json.dumps(found))


asyncio.run(main(*sys.argv[1:]))
