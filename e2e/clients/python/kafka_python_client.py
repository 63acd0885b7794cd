"""Kafka with kafka-python, the client that is all Python."""

import logging
from concurrent.futures import ThreadPoolExecutor

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError, UnknownTopicOrPartitionError

from checks import KAFKA, check, equal, name, raises, run, true, until

logging.getLogger("kafka").setLevel(logging.CRITICAL)  # failures are told by checks


def topic(partitions=1, **configs):
    """A new topic of its own."""
    admin = KafkaAdminClient(bootstrap_servers=KAFKA)
    try:
        t = name("topic")
        admin.create_topics([NewTopic(t, partitions, 1, topic_configs=configs)])
        return t
    finally:
        admin.close()


def produce(t, values, key=None, **options):
    """Produces values with a producer made for it and returns what the broker answered for each."""
    producer = KafkaProducer(bootstrap_servers=KAFKA, **options)
    try:
        futures = [producer.send(t, value=v, key=key) for v in values]
        producer.flush(30)
        return [f.get(30) for f in futures]
    finally:
        producer.close()


def numbers(count):
    return [str(i).encode() for i in range(count)]


def read(consumer, count):
    """Reads count records."""
    got = []
    until(f"{count} records", lambda: got.extend(r for rs in consumer.poll(200).values() for r in rs) or len(got) >= count)
    equal(len(got), count, "records read")
    return got


def reader(t, partition=0, **options):
    options.setdefault("auto_offset_reset", "earliest")
    consumer = KafkaConsumer(bootstrap_servers=KAFKA, enable_auto_commit=False, **options)
    consumer.assign([TopicPartition(t, partition)])
    return consumer


@check("topics are created, listed, described and deleted")
def topics():
    admin = KafkaAdminClient(bootstrap_servers=KAFKA)
    t = name("topic")
    admin.create_topics([NewTopic(t, 3, 1)])
    raises(TopicAlreadyExistsError, admin.create_topics, [NewTopic(t, 3, 1)])
    true(t in until("the topic to be listed", lambda: [x for x in admin.list_topics() if x == t]), "not listed")
    d = admin.describe_topics([t])[0]
    equal((d["name"], len(d["partitions"]), d["error_code"]), (t, 3, 0), "description")
    admin.delete_topics([t])
    until("the topic to be gone", lambda: t not in admin.list_topics())
    raises(UnknownTopicOrPartitionError, admin.delete_topics, [t])
    admin.close()


@check("a topic is made by the first that asks for it")
def automatic():
    t = name("topic")
    equal(produce(t, [b"first"])[0].offset, 0, "offset")


for codec in None, "gzip", "snappy", "lz4", "zstd":

    @check(f"produced and consumed, idempotent, compression: {codec}")
    def codecs(codec=codec):
        t = topic()
        values = [bytes([i % 256]) * (i % 700) for i in range(2000)]
        answers = produce(t, values, compression_type=codec, linger_ms=20)
        equal([a.offset for a in answers], list(range(2000)), "offsets")
        consumer = reader(t)
        equal([(r.offset, r.value) for r in read(consumer, 2000)], list(enumerate(values)), "records")
        consumer.close()


for acks in 0, 1, "all":

    @check(f"produced with acks={acks}")
    def acknowledged(acks=acks):
        t = topic()
        answers = produce(t, numbers(10), acks=acks, enable_idempotence=False)
        if acks != 0:
            equal([a.offset for a in answers], list(range(10)), "offsets")
        consumer = reader(t)
        equal([r.value for r in read(consumer, 10)], numbers(10), "values")
        consumer.close()


@check("keys, headers and timestamps come back equal, null and empty too")
def records():
    t = topic()
    producer = KafkaProducer(bootstrap_servers=KAFKA)
    sent = [
        (b"key", b"value", [("one", b"1"), ("two", b""), ("one", b"again")], 1_600_000_000_000),
        (None, b"no key", [], 1_600_000_000_001),
        (b"", b"", [("", b"\x00\xff")], 1_600_000_000_002),
        (b"tombstone", None, [], 1_600_000_000_003),
        (b"many", b"", [(f"h{i}", str(i).encode()) for i in range(1000)], 1_600_000_000_004),
    ]
    for key, value, headers, timestamp in sent:
        producer.send(t, value=value, key=key, headers=headers, timestamp_ms=timestamp)
    producer.flush(30)
    producer.close()
    consumer = reader(t)
    got = [(r.key, r.value, [tuple(h) for h in r.headers], r.timestamp) for r in read(consumer, 5)]
    for i, want in enumerate(sent):
        equal(got[i], want, f"record {i}")
    consumer.close()


@check("a record over the topic's limit is refused, one below is taken")
def too_large():
    t = topic(**{"max.message.bytes": "10000"})
    e = raises(MessageSizeTooLargeError, produce, t, [b"x" * 20_000])
    true(e is not None, "no error")
    equal(produce(t, [b"x" * 9_000])[0].offset, 0, "offset of the one below")


@check("offsets: first, end, by time")
def offsets():
    t = topic()
    producer = KafkaProducer(bootstrap_servers=KAFKA)
    for i in range(10):
        producer.send(t, value=b"x", timestamp_ms=1_600_000_000_000 + i * 1000).get(30)
    producer.close()
    consumer = reader(t)
    p = TopicPartition(t, 0)
    equal((consumer.beginning_offsets([p])[p], consumer.end_offsets([p])[p]), (0, 10), "first and end")
    for at, want in (1_600_000_000_000, 0), (1_600_000_003_500, 4), (1_600_000_009_000, 9):
        equal(consumer.offsets_for_times({p: at})[p].offset, want, f"first offset at or after {at}")
    equal(consumer.offsets_for_times({p: 1_600_000_100_000})[p], None, "offset after the end")
    consumer.seek(p, 7)
    equal([r.offset for r in read(consumer, 3)], [7, 8, 9], "offsets read after a seek")
    consumer.close()


@check("a position out of range is reset as the consumer says")
def out_of_range():
    t = topic()
    produce(t, numbers(5))
    consumer = reader(t)
    consumer.seek(TopicPartition(t, 0), 1000)
    equal([r.offset for r in read(consumer, 5)], list(range(5)), "offsets read")
    consumer.close()


@check("a reader at the end gets what comes, soon")
def long_poll():
    t = topic()
    consumer = reader(t, fetch_max_wait_ms=20_000, fetch_min_bytes=1)
    equal(consumer.poll(0), {}, "records of an empty topic")
    equal(consumer.position(TopicPartition(t, 0)), 0, "position")
    produce(t, [b"late"])
    equal(read(consumer, 1)[0].value, b"late", "value")
    consumer.close()


@check("a consumer group goes on from what it committed")
def committed():
    t, group = topic(), name("group")
    produce(t, numbers(100))
    p = TopicPartition(t, 0)

    def member():
        return KafkaConsumer(t, bootstrap_servers=KAFKA, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False, max_poll_records=10)

    consumer = member()
    got = []
    until("30 records", lambda: got.extend(r.offset for rs in consumer.poll(200).values() for r in rs) or len(got) >= 30)
    consumer.commit({p: OffsetAndMetadata(30, "a note", -1)})
    consumer.close()
    consumer = member()
    until("an assignment", lambda: consumer.poll(200) or consumer.assignment())
    equal(consumer.committed(p), 30, "committed offset")
    equal(consumer.committed(p, metadata=True).metadata, "a note", "metadata")
    consumer.seek(p, consumer.committed(p))
    equal([r.offset for r in read(consumer, 70)], list(range(30, 100)), "offsets read")
    consumer.commit()
    consumer.close()
    admin = KafkaAdminClient(bootstrap_servers=KAFKA)
    true(any(g["group_id"] == group for g in admin.list_groups()), "the group is not listed")
    listed = admin.list_group_offsets({group: [p]})
    true("100" in str(listed), f"offsets listed are {listed}")
    admin.close()


@check("members of a group share the partitions, and one takes over when another leaves")
def share():
    t, group = topic(4), name("group")

    def member():
        return KafkaConsumer(t, bootstrap_servers=KAFKA, group_id=group, auto_offset_reset="earliest", session_timeout_ms=10_000, heartbeat_interval_ms=500)

    one, two = member(), member()
    with ThreadPoolExecutor() as both:

        def shared():
            list(both.map(lambda m: m.poll(200), (one, two)))  # at once: to join a group is to wait for the others
            return len(one.assignment()) == 2 and len(two.assignment()) == 2

        until("two partitions each", shared)
    true(not one.assignment() & two.assignment(), f"both have {one.assignment() & two.assignment()}")
    admin = KafkaAdminClient(bootstrap_servers=KAFKA)
    d = admin.describe_groups([group])
    d = d[group] if isinstance(d, dict) else d[0]
    equal((d["group_state"], len(d["members"])), ("Stable", 2), "state and members")
    two.close()
    until("all four", lambda: one.poll(100) or len(one.assignment()) == 4)
    one.close()

    def state():
        d = admin.describe_groups([group])
        d = d[group] if isinstance(d, dict) else d[0]
        return d["group_state"] == "Empty"

    until("the group to be empty", state)
    admin.delete_groups([group])
    until("the group to be gone", lambda: all(g["group_id"] != group for g in admin.list_groups()))
    admin.close()


run()
