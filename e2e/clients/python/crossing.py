"""AMQP and Kafka over one log: what pika publishes is what confluent-kafka reads, and the other way."""

import json
import threading
import time

import pika
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from checks import KAFKA, amqp_host_port, check, equal, name, run, true, until

ADMIN = AdminClient({"bootstrap.servers": KAFKA})


class Channel:
    """A connection with a channel, closed in the end."""

    def __enter__(self):
        host, port = amqp_host_port()
        self.connection = pika.BlockingConnection(pika.ConnectionParameters(host=host, port=port))
        return self.connection.channel()

    def __exit__(self, *_):
        if self.connection.is_open:
            self.connection.close()


def consumer(group=None):
    return Consumer({"bootstrap.servers": KAFKA, "group.id": group or name("group"), "auto.offset.reset": "earliest", "enable.auto.commit": False})


def read(topic, count, offset=0):
    """Reads count records of partition 0."""
    c = consumer()
    c.assign([TopicPartition(topic, 0, offset)])
    try:
        return take(c, count)
    finally:
        c.close()


def take(c, count):
    got = []

    def more():
        for m in c.consume(count - len(got), 0.2):
            if m.error():
                raise KafkaException(m.error())
            got.append(m)
        return len(got) >= count

    until(f"{count} records", more)
    return got


def bounds(topic):
    c = consumer()
    try:
        return c.get_watermark_offsets(TopicPartition(topic, 0), 30)
    finally:
        c.close()


def plain(headers):
    """The headers of a record without the one that is the broker's own."""
    return [(k, v) for k, v in headers or [] if k != "_amqp"]


@check("an AMQP message is a Kafka record: body, key, properties and headers")
def amqp_to_kafka():
    with Channel() as ch:
        queue = name("queue")
        ch.queue_declare(queue, durable=True)
        ch.confirm_delivery()
        before = int(time.time() * 1000)
        ch.basic_publish("", queue, b"body", pika.BasicProperties(
            content_type="application/json", content_encoding="utf-8", correlation_id="c-1", reply_to="answers", message_id="m-1", type="kind", app_id="shop",
            delivery_mode=2, priority=5, user_id="guest",
            headers={"text": "grüße", "yes": True, "no": False, "int": -7, "long": 1 << 40, "none": None, "list": [1, "two", None], "table": {"a": {"b": 1}}}))
        ch.basic_publish("", queue, b"keyed", pika.BasicProperties(headers={"x-record-key": "the key", "other": "x"}))
        ch.basic_publish("", queue, b"")
        after = int(time.time() * 1000)
        first, keyed, empty = read(queue, 3)
        equal((first.key(), first.value(), first.offset(), first.partition()), (None, b"body", 0, 0), "record")
        true(before <= first.timestamp()[1] <= after, f"timestamp is {first.timestamp()}, not between {before} and {after}")
        headers = plain(first.headers())
        tables = {k: json.loads(v) for k, v in headers if k in ("list", "table")}
        equal(tables, {"list": [1, "two", None], "table": {"a": {"b": 1}}}, "list and table as JSON")
        equal([(k, v) for k, v in headers if k not in tables], [
            ("text", "grüße".encode()), ("yes", b"true"), ("no", b"false"), ("int", b"-7"), ("long", str(1 << 40).encode()), ("none", None),
            ("content-type", b"application/json"), ("content-encoding", b"utf-8"), ("correlation-id", b"c-1"), ("reply-to", b"answers"),
            ("message-id", b"m-1"), ("type", b"kind"), ("app-id", b"shop"),
        ], "headers")
        equal((keyed.key(), keyed.value(), plain(keyed.headers())), (b"the key", b"keyed", [("other", b"x")]), "record with a key")
        equal((empty.key(), empty.value(), plain(empty.headers())), (None, b"", []), "record of an empty body")


@check("a Kafka record is an AMQP message: body, key, offset, time and headers")
def kafka_to_amqp():
    topic = name("topic")
    ADMIN.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    p = Producer({"bootstrap.servers": KAFKA})
    p.produce(topic, b"value", b"key", timestamp=1_600_000_000_123, headers=[
        ("content-type", b"text/plain"), ("correlation-id", b"c"), ("reply-to", b"r"), ("message-id", b"m"), ("plain", b"text"), ("bytes", b"\xff\x00"), ("null", None),
        ("twice", b"1"), ("twice", b"2")])
    p.produce(topic, None, b"tombstone", timestamp=1_600_000_001_000)
    p.produce(topic, b"no key", timestamp=1_600_000_002_000)
    equal(p.flush(30), 0, "records unconfirmed")
    with Channel() as ch:
        equal(ch.queue_declare(topic, passive=True).method.message_count, 3, "messages ready")
        method, properties, body = ch.basic_get(topic)
        equal((body, method.exchange, method.routing_key, method.redelivered), (b"value", "", topic, False), "message")
        equal((properties.content_type, properties.correlation_id, properties.reply_to, properties.message_id, properties.timestamp),
              ("text/plain", "c", "r", "m", 1_600_000_000), "properties")
        equal(properties.headers, {
            "x-record-key": "key", "x-stream-offset": 0, "x-partition": 0, "x-timestamp-ms": 1_600_000_000_123, "plain": "text", "bytes": b"\xff\x00", "null": None,
            "twice": ["1", "2"],
        }, "headers")
        _, properties, body = ch.basic_get(topic)
        equal((body, properties.headers["x-tombstone"], properties.headers["x-record-key"]), (b"", True, "tombstone"), "tombstone")
        method, properties, body = ch.basic_get(topic)
        equal((body, "x-record-key" in properties.headers, properties.headers["x-stream-offset"]), (b"no key", False, 2), "message without a key")
        # Settling on a topic that Kafka made takes the messages from the queue and leaves the records to Kafka.
        ch.basic_ack(method.delivery_tag, multiple=True)
        equal(ch.queue_declare(topic, passive=True).method.message_count, 0, "messages ready after the ack")
        ch.connection.close()
    equal([m.value() for m in read(topic, 3)], [b"value", None, b"no key"], "records after the ack")
    equal(bounds(topic), (0, 3), "bounds after the ack")


@check("a Kafka producer fills an AMQP queue whose consumer waits")
def kafka_to_waiting_consumer():
    with Channel() as ch:
        queue = name("queue")
        ch.queue_declare(queue, durable=True)
        got = []
        ch.basic_consume(queue, lambda c, m, p, b: (got.append(b), c.basic_ack(m.delivery_tag)))
        p = Producer({"bootstrap.servers": KAFKA, "compression.type": "zstd", "linger.ms": 5, "enable.idempotence": True})
        for i in range(1000):
            p.produce(queue, str(i).encode())
        equal(p.flush(30), 0, "records unconfirmed")
        until("1000 deliveries", lambda: ch.connection.process_data_events(0.05) or len(got) >= 1000)
        equal(got, [str(i).encode() for i in range(1000)], "messages")
    until("the acks to take the records away", lambda: bounds(queue) == (1000, 1000))


@check("acks take messages from the log and move no bookmark; commits move a bookmark and take nothing")
def main_job():
    with Channel() as ch:
        queue, group = name("queue"), name("group")
        ch.queue_declare(queue, durable=True)
        ch.confirm_delivery()
        for i in range(100):
            ch.basic_publish("", queue, str(i).encode(), pika.BasicProperties(delivery_mode=2))
        c = consumer(group)
        c.subscribe([queue])
        got = take(c, 40)
        equal([m.value() for m in got], [str(i).encode() for i in range(40)], "records")
        c.commit(got[-1], asynchronous=False)
        equal(ch.queue_declare(queue, passive=True).method.message_count, 100, "messages ready after the commit")
        for i in range(60):
            method, _, body = ch.basic_get(queue)
            equal(body, str(i).encode(), "body")
        ch.basic_ack(method.delivery_tag, multiple=True)
        equal(ch.queue_declare(queue, passive=True).method.message_count, 40, "messages ready after the acks")
        at = c.committed([TopicPartition(queue, 0)], 30)[0].offset
        equal(at, 40, "the group's offset after the acks")
        c.close()
        equal(bounds(queue), (60, 100), "bounds after the acks")
        equal([m.offset() for m in read(queue, 40, 60)], list(range(60, 100)), "offsets left")
        # A group that stands on records that are gone goes on with those that are there, as Kafka's consumers do.
        c = consumer(group)
        c.subscribe([queue])
        equal([m.offset() for m in take(c, 40)], list(range(60, 100)), "offsets read by the group")
        c.close()


@check("a Kafka reader passes records that were settled in the middle, and does not wait at them")
def holes():
    with Channel() as ch:
        queue = name("queue")
        ch.queue_declare(queue, durable=True)
        ch.confirm_delivery()
        for i in range(30):
            ch.basic_publish("", queue, str(i).encode())
        tags = [ch.basic_get(queue)[0].delivery_tag for _ in range(30)]
        for i in range(5, 30):
            if i % 3 != 0:
                ch.basic_ack(tags[i])
        equal(ch.queue_declare(queue, passive=True).method.message_count, 0, "messages ready")
        left = [i for i in range(30) if i < 5 or i % 3 == 0]
        equal([m.offset() for m in read(queue, len(left))], left, "offsets read")
        for i in left:
            ch.basic_ack(tags[i])
        equal(ch.queue_declare(queue, passive=True).method.message_count, 0, "messages ready")
        c = consumer()
        c.assign([TopicPartition(queue, 0, 30)])
        late = []
        reader = threading.Thread(target=lambda: late.extend(take(c, 1)), daemon=True)
        reader.start()
        ch.basic_publish("", queue, b"new")
        reader.join(30)
        equal([(m.offset(), m.value()) for m in late], [(30, b"new")], "what a reader at the end got")
        c.close()


@check("who holds what can be read with Kafka while messages are out, and is gone when they are settled")
def index():
    with Channel() as ch:
        queue = name("queue")
        ch.queue_declare(queue, durable=True)
        ch.confirm_delivery()
        for i in range(5):
            ch.basic_publish("", queue, str(i).encode())

        def claims():
            c = consumer()
            low, high = c.get_watermark_offsets(TopicPartition("__claims", 0), 30)
            c.assign([TopicPartition("__claims", 0, low)])
            deadline, got = time.monotonic() + 30, []
            while c.position([TopicPartition("__claims", 0)])[0].offset < high and low < high and time.monotonic() < deadline:
                m = c.poll(0.05)
                if m is not None and not m.error() and m.key() == f"/{queue}".encode():
                    got.append(json.loads(m.value()))
            c.close()
            return got

        tags = [ch.basic_get(queue)[0].delivery_tag for _ in range(3)]
        until("the claims to be readable", lambda: len(claims()) == 3)
        equal([(v["kind"], v["queue"], v["partition"], v["ranges"]) for v in claims()], [("claim", queue, 0, [[i, 1]]) for i in range(3)], "claims")
        true(all("amqp" in v["holder"] for v in claims()), f"holders are {[v['holder'] for v in claims()]}")
        ch.basic_ack(tags[-1], multiple=True)
        until("the claims to be gone", lambda: claims() == [])
        ch.queue_delete(queue)


@check("queues and topics have one name space: each side lists, and deletes, what the other made")
def names():
    with Channel() as ch:
        queue = name("queue")
        ch.queue_declare(queue, durable=True)
        true(queue in ADMIN.list_topics(timeout=30).topics, "the queue is not listed to Kafka")
        server_named = ch.queue_declare("", exclusive=True).method.queue
        true(server_named not in ADMIN.list_topics(timeout=30).topics, "an exclusive queue is listed to Kafka")
        ADMIN.delete_topics([queue])[queue].result(30)

        def gone():
            try:
                ch.connection.channel().queue_declare(queue, passive=True)
            except pika.exceptions.ChannelClosedByBroker as e:
                return e.reply_code == 404

        until("the queue to be gone", gone)
        topic = name("topic")
        ADMIN.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
        ch.queue_delete(topic)
        until("the topic to be gone", lambda: topic not in ADMIN.list_topics(timeout=30).topics)


@check("a queue whose name is no legal topic name is a topic under an escaped one")
def escaped():
    with Channel() as ch:
        queue = name("größe/neu und-alt")
        topic = "amqp--" + "".join(chr(b) if chr(b).isascii() and (chr(b).isalnum() or chr(b) in "._") else f"-{b:02x}" for b in queue.encode())
        ch.queue_declare(queue, durable=True)
        ch.confirm_delivery()
        ch.basic_publish("", queue, b"from AMQP")
        true(topic in ADMIN.list_topics(timeout=30).topics, f"{topic} is not listed to Kafka")
        p = Producer({"bootstrap.servers": KAFKA})
        p.produce(topic, b"from Kafka")
        equal(p.flush(30), 0, "records unconfirmed")
        equal([m.value() for m in read(topic, 2)], [b"from AMQP", b"from Kafka"], "records")
        got = [ch.basic_get(queue) for _ in range(2)]
        equal([(m.routing_key, b) for m, _, b in got], [(queue, b"from AMQP"), (queue, b"from Kafka")], "messages")
        ADMIN.delete_topics([topic])[topic].result(30)
        until("the topic to be gone", lambda: topic not in ADMIN.list_topics(timeout=30).topics)


run()
