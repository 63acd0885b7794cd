"""AMQP 0-9-1 with aio-pika, the client for asyncio."""

import asyncio
import logging
import uuid

import aio_pika

from checks import AMQP, check, equal, name, run

logging.getLogger("aio_pika").setLevel(logging.CRITICAL)  # failures are told by checks
logging.getLogger("aiormq").setLevel(logging.CRITICAL)
URL = f"amqp://guest:guest@{AMQP}/"


def on_loop(function):
    """A check that is a coroutine, run with a connection of its own."""

    async def with_connection():
        async with await aio_pika.connect(URL) as connection:
            await function(connection)

    return lambda: asyncio.run(asyncio.wait_for(with_connection(), 50))


@check("1000 publishes confirmed at once, consumed and acknowledged by three consumers")
@on_loop
async def publish_consume(connection):
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=20)
    queue = await channel.declare_queue(name("queue"), durable=True)
    await asyncio.gather(*(channel.default_exchange.publish(aio_pika.Message(str(i).encode()), queue.name) for i in range(1000)))
    got, done = [], asyncio.Event()

    async def on_message(message):
        async with message.process():
            got.append(int(message.body))
            if len(got) == 1000:
                done.set()

    for _ in range(3):
        await queue.consume(on_message)
    await done.wait()
    equal(sorted(got), list(range(1000)), "messages")
    equal((await queue.delete(if_unused=False)).message_count, 0, "messages left")


@check("a message whose handler fails comes back, redelivered")
@on_loop
async def failing(connection):
    channel = await connection.channel()
    queue = await channel.declare_queue(name("queue"), durable=True)
    await channel.default_exchange.publish(aio_pika.Message(b"x"), queue.name)
    seen = []
    async with queue.iterator() as messages:
        async for message in messages:
            try:
                async with message.process(requeue=True):
                    seen.append(message.redelivered)
                    if len(seen) == 1:
                        raise RuntimeError
                    break
            except RuntimeError:
                pass
    equal(seen, [False, True], "redelivered")


@check("request and answer over exclusive queues")
@on_loop
async def request(connection):
    channel = await connection.channel()
    requests = await channel.declare_queue(name("queue"))
    answers = await channel.declare_queue(exclusive=True)

    async def serve(message):
        async with message.process():
            await channel.default_exchange.publish(aio_pika.Message(message.body[::-1], correlation_id=message.correlation_id), message.reply_to)

    await requests.consume(serve)
    token = uuid.uuid4().hex
    await channel.default_exchange.publish(aio_pika.Message(b"abc", correlation_id=token, reply_to=answers.name), requests.name)
    got = asyncio.get_running_loop().create_future()
    await answers.consume(got.set_result, no_ack=True)
    answer = await got
    equal((answer.body, answer.correlation_id), (b"cba", token), "answer")
    await requests.delete(if_unused=False)


@check("headers of every type come back equal")
@on_loop
async def headers(connection):
    channel = await connection.channel()
    queue = await channel.declare_queue(name("queue"))
    sent = {"text": "t", "float": 2.5, "int": 7, "big": 1 << 60, "bool": False, "none": None, "list": [1, [2.25, "x"]], "table": {"a": {"b": []}}}
    await channel.default_exchange.publish(aio_pika.Message(b"x", headers=sent), queue.name)
    message = await queue.get(no_ack=True)
    for key, value in sent.items():
        equal(message.headers.get(key), value, key)
    await queue.delete()


run()
