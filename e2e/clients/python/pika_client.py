"""AMQP 0-9-1 with pika, the Python client that RabbitMQ's tutorials use."""

import datetime
import decimal
import threading

import pika
from pika import exceptions

from checks import amqp_host_port, check, equal, name, raises, run, true, until


def connect(**options):
    host, port = amqp_host_port()
    options.setdefault("heartbeat", 60)
    return pika.BlockingConnection(pika.ConnectionParameters(host=host, port=port, **options))


class Channel:
    """A connection with a channel, closed in the end, whatever happened to them."""

    def __init__(self, **options):
        self.options = options

    def __enter__(self):
        self.connection = connect(**self.options)
        return self.connection.channel()

    def __exit__(self, *_):
        if self.connection.is_open:
            self.connection.close()


def fill(channel, count, queue=None, **declare):
    """A queue of its own with count messages, b'0', b'1' and so on, each confirmed."""
    queue = queue or name("queue")
    channel.queue_declare(queue, durable=True, **declare)
    channel.confirm_delivery()
    for i in range(count):
        channel.basic_publish("", queue, str(i).encode(), pika.BasicProperties(delivery_mode=2))
    return queue


def ready(channel, queue):
    return channel.queue_declare(queue, passive=True).method.message_count


@check("the server names its capabilities")
def capabilities():
    connection = connect()
    properties = connection._impl.server_properties
    for c in "publisher_confirms", "basic.nack", "consumer_cancel_notify", "authentication_failure_close", "per_consumer_qos", "connection.blocked":
        equal(properties["capabilities"].get(c), True, c)
    for p in "product", "version", "platform":
        true(properties.get(p), f"{p} is missing in {properties}")
    connection.close()


@check("a wrong password is refused with 403")
def password():
    e = raises(exceptions.AMQPConnectionError, connect, credentials=pika.PlainCredentials("guest", "wrong"))
    true(isinstance(e, exceptions.ProbableAuthenticationError) and "403" in str(e), f"error is {e!r}")


@check("an unknown vhost is refused with 530")
def vhost():
    e = raises(exceptions.AMQPConnectionError, connect, virtual_host="nowhere")
    true("530" in str(e) or isinstance(e, exceptions.ProbableAccessDeniedError), f"error is {e!r}")


@check("publish with confirms, get, ack")
def get():
    with Channel() as ch:
        queue = fill(ch, 3)
        for i in range(3):
            method, properties, body = ch.basic_get(queue)
            equal((body, method.message_count, method.redelivered, method.exchange, method.routing_key), (str(i).encode(), 2 - i, False, "", queue), "message")
            equal(method.delivery_tag, i + 1, "delivery tag")
            equal(properties.delivery_mode, 2, "delivery mode")
            ch.basic_ack(method.delivery_tag)
        equal(ch.basic_get(queue)[0], None, "get of an empty queue")
        equal(ch.queue_delete(queue).method.message_count, 0, "messages deleted")


@check("10,000 messages consumed in order and acknowledged in groups")
def consume():
    with Channel() as ch:
        queue = name("queue")
        ch.queue_declare(queue, durable=True)
        for i in range(10_000):
            ch.basic_publish("", queue, str(i).encode())
        ch.basic_qos(prefetch_count=200)
        got = 0
        for method, _, body in ch.consume(queue, inactivity_timeout=30):
            true(method is not None, f"{got} came, then nothing")
            equal(body, str(got).encode(), "body")
            got += 1
            if got % 100 == 0:
                ch.basic_ack(method.delivery_tag, multiple=True)
            if got == 10_000:
                break
        ch.cancel()
        equal(ch.queue_delete(queue).method.message_count, 0, "messages left")


@check("nack with requeue brings the message back at its place, redelivered")
def nack():
    with Channel() as ch:
        queue = fill(ch, 3)
        first = ch.basic_get(queue)
        ch.basic_nack(first[0].delivery_tag, requeue=True)
        again = [ch.basic_get(queue) for _ in range(3)]
        equal([(m.redelivered, b) for m, _, b in again], [(True, b"0"), (False, b"1"), (False, b"2")], "messages")
        ch.basic_nack(again[2][0].delivery_tag, multiple=True, requeue=True)
        again = [ch.basic_get(queue) for _ in range(3)]
        equal([(m.redelivered, b) for m, _, b in again], [(True, b"0"), (True, b"1"), (True, b"2")], "messages after multiple")


@check("reject without requeue takes the message away, with requeue brings it back")
def reject():
    with Channel() as ch:
        queue = fill(ch, 2)
        ch.basic_reject(ch.basic_get(queue)[0].delivery_tag, requeue=False)
        method, _, body = ch.basic_get(queue)
        equal(body, b"1", "body")
        ch.basic_reject(method.delivery_tag, requeue=True)
        method, _, body = ch.basic_get(queue)
        equal((body, method.redelivered), (b"1", True), "message")
        ch.basic_ack(method.delivery_tag)
        equal(ready(ch, queue), 0, "messages ready")


@check("recover brings back all that is unacknowledged")
def recover():
    with Channel() as ch:
        queue = fill(ch, 5)
        for _ in range(5):
            ch.basic_get(queue)
        equal(ready(ch, queue), 0, "messages ready")
        ch.basic_recover(requeue=True)
        equal(ready(ch, queue), 5, "messages ready after recover")
        equal([(m.redelivered, b) for m, _, b in (ch.basic_get(queue) for _ in range(5))], [(True, str(i).encode()) for i in range(5)], "messages")


@check("prefetch bounds what a consumer holds")
def prefetch():
    with Channel() as ch:
        queue = fill(ch, 10)
        ch.basic_qos(prefetch_count=3)
        held = []
        ch.basic_consume(queue, lambda c, m, p, b: held.append(m.delivery_tag))
        until("3 deliveries", lambda: ch.connection.process_data_events(0.05) or len(held) >= 3)
        equal(ready(ch, queue), 7, "messages ready")  # asked after the deliveries: more would be here by now
        equal(held, [1, 2, 3], "tags held")
        ch.basic_ack(2, multiple=True)
        until("2 more", lambda: ch.connection.process_data_events(0.05) or len(held) >= 5)
        equal(ready(ch, queue), 5, "messages ready after an ack of two")
        equal(held, [1, 2, 3, 4, 5], "tags held after an ack of two")


@check("a prefetch for the channel bounds all its consumers together")
def prefetch_global():
    with Channel() as ch:
        one, two = fill(ch, 10), fill(ch, 10)
        ch.basic_qos(prefetch_count=4, global_qos=True)
        held = []
        for queue in one, two:
            ch.basic_consume(queue, lambda c, m, p, b: held.append(m.delivery_tag))
        until("4 deliveries", lambda: ch.connection.process_data_events(0.05) or len(held) >= 4)
        equal(ready(ch, one) + ready(ch, two), 16, "messages ready")
        equal(held, [1, 2, 3, 4], "tags held")


@check("a mandatory message without a queue is returned with 312 and then confirmed")
def mandatory():
    with Channel() as ch:
        ch.confirm_delivery()
        e = raises(exceptions.UnroutableError, ch.basic_publish, "", name("nowhere"), b"back", pika.BasicProperties(message_id="m"), mandatory=True)
        equal(len(e.messages), 1, "messages returned")
        m = e.messages[0]
        equal((m.method.reply_code, m.body, m.properties.message_id), (312, b"back", "m"), "the returned message")
        ch.basic_publish("", name("nowhere"), b"dropped")  # without mandatory it is confirmed and dropped


@check("publishing to an unknown exchange closes the channel with 404 and not the connection")
def unknown_exchange():
    with Channel() as ch:
        ch.confirm_delivery()
        e = raises(exceptions.ChannelClosedByBroker, ch.basic_publish, name("nowhere"), "key", b"")
        equal(e.reply_code, 404, "reply code")
        fill(ch.connection.channel(), 1)


@check("an exclusive queue is locked to others (405) and goes with its connection")
def exclusive():
    with Channel() as mine:
        queue = mine.queue_declare("", exclusive=True).method.queue
        true(queue.startswith("amq.gen-"), f"the server named it {queue}")
        with Channel() as other:
            e = raises(exceptions.ChannelClosedByBroker, other.queue_declare, queue, passive=True)
            equal(e.reply_code, 405, "reply code of a passive declaration")
            e = raises(exceptions.ChannelClosedByBroker, other.connection.channel().basic_get, queue)
            equal(e.reply_code, 405, "reply code of get")
            mine.connection.close()
            e = raises(exceptions.ChannelClosedByBroker, other.connection.channel().queue_declare, queue, passive=True)
            equal(e.reply_code, 404, "reply code after its connection closed")


@check("an auto-delete queue goes with its last consumer, not before its first")
def auto_delete():
    with Channel() as ch:
        queue = name("queue")
        ch.queue_declare(queue, auto_delete=True)
        ch.confirm_delivery()
        ch.basic_publish("", queue, b"x")
        equal(ready(ch, queue), 1, "messages ready")
        tags = [ch.basic_consume(queue, lambda *_: None, auto_ack=True) for _ in range(2)]
        ch.basic_cancel(tags[0])
        equal(ch.queue_declare(queue, passive=True).method.consumer_count, 1, "consumers")
        ch.basic_cancel(tags[1])
        e = raises(exceptions.ChannelClosedByBroker, ch.queue_declare, queue, passive=True)
        equal(e.reply_code, 404, "reply code")


@check("declarations: the same is fine, another is 406, passive of an unknown one 404")
def declare():
    with Channel() as ch:
        queue = name("queue")
        ok = ch.queue_declare(queue, durable=True, arguments={"x-text": "kept"})
        equal((ok.method.queue, ok.method.message_count, ok.method.consumer_count), (queue, 0, 0), "declare-ok")
        ch.queue_declare(queue, durable=True)  # arguments that the server does not know need not be repeated
        e = raises(exceptions.ChannelClosedByBroker, ch.queue_declare, queue, durable=False)
        equal(e.reply_code, 406, "reply code of another durability")
        e = raises(exceptions.ChannelClosedByBroker, ch.connection.channel().queue_declare, name("unknown"), passive=True)
        equal(e.reply_code, 404, "reply code of an unknown queue")
        e = raises(exceptions.ChannelClosedByBroker, ch.connection.channel().queue_declare, "amq.mine")
        equal(e.reply_code, 403, "reply code of a reserved name")


@check("purge counts what was ready and leaves what is unacknowledged; delete honours if-empty and if-unused")
def purge_delete():
    with Channel() as ch:
        queue = fill(ch, 5)
        ch.basic_get(queue)
        equal(ch.queue_purge(queue).method.message_count, 4, "messages purged")
        ch.basic_recover(requeue=True)
        equal(ready(ch, queue), 1, "messages ready")
        e = raises(exceptions.ChannelClosedByBroker, ch.queue_delete, queue, if_empty=True)
        equal(e.reply_code, 406, "reply code of if-empty")
        ch = ch.connection.channel()
        ch.basic_qos(prefetch_count=1)
        tag = ch.basic_consume(queue, lambda *_: None)
        e = raises(exceptions.ChannelClosedByBroker, ch.connection.channel().queue_delete, queue, if_unused=True)
        equal(e.reply_code, 406, "reply code of if-unused")
        ch.basic_cancel(tag)
        ch.queue_delete(queue)
        equal(ch.queue_delete(queue).method.message_count, 0, "deleting it again")


@check("an unknown delivery tag closes the channel with 406 and brings its messages back")
def unknown_tag():
    with Channel() as ch:
        queue = fill(ch, 1)
        ch.basic_get(queue)
        ch.basic_ack(7)
        e = raises(exceptions.ChannelClosedByBroker, ready, ch, queue)
        equal(e.reply_code, 406, "reply code")
        method, _, _ = ch.connection.channel().basic_get(queue)
        equal(method.redelivered, True, "redelivered")


@check("what was delivered before a cancel can be acknowledged after it")
def cancel():
    with Channel() as ch:
        queue = fill(ch, 4)
        ch.basic_qos(prefetch_count=2)
        held = []
        tag = ch.basic_consume(queue, lambda c, m, p, b: held.append(m.delivery_tag))
        until("2 deliveries", lambda: ch.connection.process_data_events(0.05) or len(held) >= 2)
        ch.basic_cancel(tag)
        equal(ready(ch, queue), 2, "messages ready")
        ch.basic_ack(2, multiple=True)
        ch.connection.close()
    with Channel() as ch:
        equal([ch.basic_get(queue)[2] for _ in range(3)], [b"2", b"3", None], "messages left")


@check("consumers of a deleted queue are told (basic.cancel)")
def cancelled_by_server():
    with Channel() as ch:
        queue = fill(ch, 0)
        told = []
        ch.add_on_cancel_callback(lambda frame: told.append(frame.method.consumer_tag))
        tag = ch.basic_consume(queue, lambda *_: None)
        ch.connection.channel().queue_delete(queue)
        until("the cancel", lambda: ch.connection.process_data_events(0.05) or told)
        equal(told, [tag], "tags cancelled")


@check("an exclusive consumer keeps others out (403)")
def exclusive_consumer():
    with Channel() as ch:
        queue = fill(ch, 0)
        ch.basic_consume(queue, lambda *_: None, exclusive=True)
        e = raises(exceptions.ChannelClosedByBroker, ch.connection.channel().basic_consume, queue, lambda *_: None)
        equal(e.reply_code, 403, "reply code")


@check("a connection that drops brings back what it held, at once, redelivered, in order")
def dropped_socket():
    with Channel() as ch:
        queue = fill(ch, 10)
        other = connect()
        theirs = other.channel()
        for _ in range(6):
            theirs.basic_get(queue)
        equal(ready(ch, queue), 4, "messages ready")
        other._impl._transport._sock.close()  # no connection.close
        until("the messages to come back", lambda: ready(ch, queue) == 10, limit=10)
        equal([(m.redelivered, b) for m, _, b in (ch.basic_get(queue) for _ in range(10))], [(i < 6, str(i).encode()) for i in range(10)], "messages")


@check("auto-ack deliveries are gone when delivered")
def auto_ack():
    with Channel() as ch:
        queue = fill(ch, 100)
        got = []
        ch.basic_consume(queue, lambda c, m, p, b: got.append(b), auto_ack=True)
        until("100 deliveries", lambda: ch.connection.process_data_events(0.05) or len(got) >= 100)
        equal(ready(ch, queue), 0, "messages ready")
        ch.connection.close()
    with Channel() as ch:
        equal(ready(ch, queue), 0, "messages ready after the connection closed")
        equal(ch.basic_get(fill(ch, 1), auto_ack=True)[2], b"0", "get with auto-ack")


@check("bodies of no byte, of one frame, of one byte more and of a megabyte come back equal")
def sizes():
    with Channel(frame_max=4096) as ch:
        queue = fill(ch, 0)
        for size in 0, 1, 4096 - 8, 4096 - 7, 2 * (4096 - 8), 1 << 20:
            body = bytes(i * 31 % 256 for i in range(size))
            ch.basic_publish("", queue, body)
            method, _, got = ch.basic_get(queue, auto_ack=True)
            true(method is not None and got == body, f"a body of {size} bytes came back with {len(got or b'')} bytes")


@check("every property and every type of header comes back equal")
def properties():
    sent = pika.BasicProperties(
        content_type="text/plain", content_encoding="utf-8", delivery_mode=2, priority=7, correlation_id="c-1", reply_to="answers",
        expiration="600000", message_id="m-1", timestamp=1_700_000_000, type="kind", user_id="guest", app_id="checks", cluster_id="",
        headers={
            "text": "grüße", "bool": True, "byte": 5, "int": -70_000, "long": 1 << 40, "negative": -(1 << 40),
            "decimal": decimal.Decimal("3.14"), "time": datetime.datetime(2020, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc), "none": None,
            "bytes": b"\x00\xff", "empty": {}, "list": [1, "two", [3], {"four": 4}, None], "table": {"in": {"deep": [True, {}]}},
            "long text": "x" * 5000,
        })
    with Channel() as ch:
        queue = fill(ch, 0)
        ch.basic_publish("", queue, b"body", sent)
        _, got, body = ch.basic_get(queue, auto_ack=True)
        equal(body, b"body", "body")
        for key, value in vars(sent).items():
            if key != "headers":
                equal(getattr(got, key), value, key)
        # Only the order in which pika itself writes them is known to it, and it is kept.
        equal(list(got.headers.items()), list(sent.headers.items()), "headers")
        ch.basic_publish("", queue, b"bare")
        _, got, _ = ch.basic_get(queue, auto_ack=True)
        equal({k: v for k, v in vars(got).items() if v is not None}, {}, "properties of a message without")


@check("a message in the name of another user is refused with 406")
def user_id():
    with Channel() as ch:
        queue = fill(ch, 0)
        e = raises(exceptions.ChannelClosedByBroker, ch.basic_publish, "", queue, b"", pika.BasicProperties(user_id="somebody"))
        equal(e.reply_code, 406, "reply code")


@check("an idle connection lives by heartbeats")
def heartbeats():
    with Channel(heartbeat=1) as ch:
        queue = fill(ch, 1)
        ch.connection.process_data_events(time_limit=4)  # serves heartbeats only; either side would have given up after 2 s
        equal(ch.basic_get(queue)[2], b"0", "body")


@check("gets and consumers of several connections at once settle every message once")
def compete():
    count = 2000
    with Channel() as ch:
        queue = fill(ch, count)
    lock, got = threading.Lock(), {}

    def note(body, redelivered):
        with lock:
            got.setdefault(body, []).append(redelivered)

    failures = []

    def work(consume):
        try:
            with Channel() as ch:
                ch.basic_qos(prefetch_count=20)
                if consume:
                    def on_message(c, m, p, b):
                        note(b, m.redelivered)
                        c.basic_ack(m.delivery_tag)
                    ch.basic_consume(queue, on_message)
                while len(got) < count and not failures:
                    if consume:
                        ch.connection.process_data_events(0.05)
                        continue
                    m, _, b = ch.basic_get(queue)
                    if m is not None:
                        note(b, m.redelivered)
                        ch.basic_ack(m.delivery_tag)
        except Exception as e:  # told in the end
            failures.append(e)

    threads = [threading.Thread(target=work, args=(i % 2 == 0,), daemon=True) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(50)
    equal((failures, len(got)), ([], count), "failures and messages got")
    twice = {b: r for b, r in got.items() if len(r) > 1 and not any(r)}
    equal(twice, {}, "messages got twice without redelivered")
    with Channel() as ch:
        equal(ch.queue_delete(queue).method.message_count, 0, "messages left")


run()
