"""Kafka with confluent-kafka: librdkafka, the C client under many languages."""

import functools
import logging
import threading

from confluent_kafka import (TIMESTAMP_CREATE_TIME, Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from checks import KAFKA, check, equal, name, raises, run, true, until


logging.getLogger("librdkafka").addHandler(logging.NullHandler())  # failures are told by checks


def quiet(_):
    """Takes errors that the client meets on its way and repairs by itself."""


COMMON = {"bootstrap.servers": KAFKA, "error_cb": quiet, "logger": logging.getLogger("librdkafka")}


@functools.cache
def admin():
    """The one client for administration: it must live as long as what it was asked for."""
    return AdminClient(COMMON)


def topic(partitions=1, **configs):
    t = name("topic")
    admin().create_topics([NewTopic(t, partitions, 1, config=configs)])[t].result(30)
    return t


def produce(t, values, **config):
    """Produces values and returns the messages as they were confirmed."""
    producer, done = Producer({**COMMON, "linger.ms": 5, **config}), []

    def on_delivery(error, message):
        done.append(error or message)

    for v in values:
        while True:
            try:
                producer.produce(t, v, on_delivery=on_delivery, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    equal(producer.flush(40), 0, "messages unconfirmed")
    failed = [d for d in done if isinstance(d, KafkaError)]
    if failed:
        raise KafkaException(failed[0])
    return done


def consumer(group=None, **config):
    return Consumer({**COMMON, "group.id": group or name("group"), "auto.offset.reset": "earliest", "enable.auto.commit": False, **config})


def read(c, count, limit=40):
    """Reads count messages. Errors of the client itself raise."""
    got = []

    def more():
        for m in c.consume(count - len(got), 0.2):
            if m.error():
                raise KafkaException(m.error())
            got.append(m)
        return len(got) >= count

    until(f"{count} messages", more, limit)
    return got


@check("topics are created, listed and deleted")
def topics():
    a, t = admin(), name("topic")
    a.create_topics([NewTopic(t, 3, 1)])[t].result(30)
    e = raises(KafkaException, a.create_topics([NewTopic(t, 3, 1)])[t].result, 30)
    equal(e.args[0].code(), KafkaError.TOPIC_ALREADY_EXISTS, "error")
    e = raises(KafkaException, a.create_topics([NewTopic("not/legal", 1, 1)])["not/legal"].result, 30)
    equal(e.args[0].code(), KafkaError.TOPIC_EXCEPTION, "error of an illegal name")
    equal(len(a.list_topics(t, 30).topics[t].partitions), 3, "partitions")
    true(t in a.list_topics(timeout=30).topics, "the topic is not listed")
    d = a.describe_cluster()
    result = d.result(30)
    equal(len(result.nodes), 1, "nodes")
    a.delete_topics([t])[t].result(30)
    until("the topic to be gone", lambda: t not in a.list_topics(timeout=30).topics)


@check("idempotent, five requests in flight: every record once and in order")
def idempotent():
    t = topic()
    values = [str(i).encode() for i in range(50_000)]
    done = produce(t, values, **{"enable.idempotence": True, "linger.ms": 1, "batch.num.messages": 500})
    equal([m.offset() for m in done], list(range(50_000)), "offsets confirmed")
    c = consumer()
    c.assign([TopicPartition(t, 0, 0)])
    equal([(m.offset(), m.value()) for m in read(c, 50_000)], list(enumerate(values)), "records")
    c.close()


for codec in "none", "gzip", "snappy", "lz4", "zstd":

    @check(f"produced and consumed, compression: {codec}")
    def codecs(codec=codec):
        t = topic()
        values = [bytes([i % 256]) * (i % 700) for i in range(3000)]
        # Idempotent, since else a retry may change the order.
        produce(t, values, **{"compression.type": codec, "linger.ms": 20, "enable.idempotence": True})
        c = consumer(**{"check.crcs": True})
        c.assign([TopicPartition(t, 0, 0)])
        equal([m.value() for m in read(c, 3000)], values, "values")
        c.close()


@check("keys, headers and timestamps come back equal, null and empty too")
def records():
    t = topic()
    p = Producer(COMMON)
    headers = [("one", b"1"), ("null", None), ("one", b"again"), ("empty", b"")]
    p.produce(t, b"value", b"key", headers=headers, timestamp=1_600_000_000_000)
    p.produce(t, None, b"tombstone")
    p.produce(t, b"", None)
    equal(p.flush(30), 0, "messages unconfirmed")
    c = consumer()
    c.assign([TopicPartition(t, 0, 0)])
    got = read(c, 3)
    equal((got[0].key(), got[0].value(), got[0].headers(), got[0].timestamp()), (b"key", b"value", headers, (TIMESTAMP_CREATE_TIME, 1_600_000_000_000)), "record")
    equal([(m.key(), m.value()) for m in got[1:]], [(b"tombstone", None), (None, b"")], "records")
    c.close()


@check("a record over the topic's limit is refused")
def too_large():
    t = topic(**{"max.message.bytes": "10000"})
    e = raises(KafkaException, produce, t, [b"x" * 20_000])
    equal(e.args[0].code(), KafkaError.MSG_SIZE_TOO_LARGE, "error")
    equal(produce(t, [b"x" * 9_000])[0].offset(), 0, "offset of one below")


@check("producing to a topic that may not be made is an error")
def unknown_topic():
    e = raises(KafkaException, produce, name("topic"), [b"x"], **{"allow.auto.create.topics": False, "message.timeout.ms": 3000})
    true(e.args[0].code() in (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._MSG_TIMED_OUT), f"error is {e}")


@check("offsets: first, end, by time, the largest time")
def offsets():
    t = topic()
    p = Producer(COMMON)
    for i in range(10):
        p.produce(t, b"x", timestamp=1_600_000_000_000 + i * 1000)
    equal(p.flush(30), 0, "messages unconfirmed")
    c, at = consumer(), TopicPartition(t, 0)
    equal(c.get_watermark_offsets(at, 30), (0, 10), "watermarks")
    for time, want in (1_600_000_000_000, 0), (1_600_000_003_500, 4), (1_600_000_009_000, 9):
        equal(c.offsets_for_times([TopicPartition(t, 0, time)], 30)[0].offset, want, f"first offset at or after {time}")
    for spec, want in (OffsetSpec.earliest(), 0), (OffsetSpec.latest(), 10), (OffsetSpec.max_timestamp(), 9), (OffsetSpec.for_timestamp(1_600_000_005_000), 5):
        equal(admin().list_offsets({at: spec})[at].result(30).offset, want, f"offset of {spec}")
    c.close()


@check("a reader at the end gets what comes, soon; the end of the partition is told")
def long_poll():
    t = topic()
    c = consumer(**{"enable.partition.eof": True, "fetch.wait.max.ms": 3000})
    c.assign([TopicPartition(t, 0, 0)])
    end = until("the end", lambda: c.poll(0.2))
    equal(end.error().code(), KafkaError._PARTITION_EOF, "event")
    produce(t, [b"late"])
    equal(until("the message", lambda: c.poll(0.2)).value(), b"late", "value")
    c.close()


@check("a consumer group goes on from what it committed")
def committed():
    t, group = topic(), name("group")
    produce(t, [str(i).encode() for i in range(100)])
    c = consumer(group)
    c.subscribe([t])
    got = read(c, 30)
    c.commit(got[-1], asynchronous=False)
    c.close()
    c = consumer(group)
    c.subscribe([t])
    equal([m.offset() for m in read(c, 70)], list(range(30, 100)), "offsets read")
    equal(c.committed([TopicPartition(t, 0)], 30)[0].offset, 30, "committed offset")
    c.commit(offsets=[TopicPartition(t, 0, 100, metadata="a note")], asynchronous=False)
    at = c.committed([TopicPartition(t, 0)], 30)[0]
    equal((at.offset, at.metadata), (100, "a note"), "committed offset and metadata")
    e = raises(KafkaException, consumer(group, **{"group.instance.id": "x"}).commit, offsets=[TopicPartition(t, 0, 1)], asynchronous=False)
    true(e is not None, "a stranger may not commit while the group has members")
    c.close()


for strategy in "range", "roundrobin", "cooperative-sticky":

    @check(f"members of a group share the partitions and take over from one that leaves, strategy: {strategy}")
    def share(strategy=strategy):
        t, group = topic(4), name("group")
        config = {"partition.assignment.strategy": strategy, "session.timeout.ms": 10_000, "heartbeat.interval.ms": 300}
        members = [consumer(group, **config) for _ in range(2)]
        for m in members:
            m.subscribe([t])

        def shared():
            for m in members:
                m.poll(0.05)
            return [len(m.assignment()) for m in members] == [2, 2]

        until("two partitions each", shared)
        members[1].close()
        until("all four", lambda: members[0].poll(0.1) or len(members[0].assignment()) == 4)
        members[0].close()


@check("a static member that comes back within its session keeps its partitions, and a second one fences it")
def static_member():
    t, group = topic(2), name("group")
    config = {"group.instance.id": "one", "session.timeout.ms": 20_000, "heartbeat.interval.ms": 300}
    first = consumer(group, **config)
    first.subscribe([t])
    until("an assignment", lambda: first.poll(0.1) or len(first.assignment()) == 2)
    second = consumer(group, **config)
    second.subscribe([t])
    fenced = []

    def told():
        second.poll(0.05)
        m = first.poll(0.05)
        if m is not None and m.error() and m.error().code() in (KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL):
            fenced.append(m.error())
        return fenced and len(second.assignment()) == 2

    until("the first to be fenced and the second to have both partitions", told)
    second.close()
    threading.Thread(target=first.close, daemon=True).start()


@check("groups are listed, described, and deleted when they are empty")
def groups():
    t, group = topic(), name("group")
    a, c = admin(), consumer(group)
    c.subscribe([t])
    until("an assignment", lambda: c.poll(0.1) or c.assignment())
    c.commit(offsets=[TopicPartition(t, 0, 5)], asynchronous=False)
    listed = a.list_consumer_groups().result(30)
    true(any(g.group_id == group for g in listed.valid), "the group is not listed")
    d = a.describe_consumer_groups([group])[group].result(30)
    equal((d.state.name, len(d.members), d.partition_assignor), ("STABLE", 1, "range"), "description")
    equal([p.topic for p in d.members[0].assignment.topic_partitions], [t], "assignment")
    e = raises(KafkaException, a.delete_consumer_groups([group])[group].result, 30)
    equal(e.args[0].code(), KafkaError.NON_EMPTY_GROUP, "error of deleting it")
    c.close()
    until("it to be empty", lambda: a.describe_consumer_groups([group])[group].result(30).state.name == "EMPTY")
    offsets = a.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(30)
    equal([(p.topic, p.offset) for p in offsets.topic_partitions], [(t, 5)], "offsets")
    a.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [TopicPartition(t, 0, 3)])])[group].result(30)
    offsets = a.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(30)
    equal([p.offset for p in offsets.topic_partitions], [3], "offsets after a change")
    a.delete_consumer_groups([group])[group].result(30)
    until("it to be gone", lambda: all(g.group_id != group for g in a.list_consumer_groups().result(30).valid))


run()
