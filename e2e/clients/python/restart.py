"""What holds over a restart of the broker: the runner runs this with PHASE=before, restarts the broker, and runs it with PHASE=after."""

import os

import pika
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from checks import KAFKA, PREFIX, amqp_host_port, check, equal, run, until

QUEUE, TOPIC, GROUP = f"{PREFIX}.restart.queue", f"{PREFIX}.restart.topic", f"{PREFIX}.restart.group"


def connect():
    host, port = amqp_host_port()
    return pika.BlockingConnection(pika.ConnectionParameters(host=host, port=port))


def read(count):
    """Reads count records with the group and commits behind the last."""
    c = Consumer({"bootstrap.servers": KAFKA, "group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    c.subscribe([TOPIC])
    got = []

    def more():
        for m in c.consume(count - len(got), 0.2):
            if m.error():
                raise KafkaException(m.error())
            got.append(m)
        return len(got) >= count

    until(f"{count} records", more)
    c.commit(got[-1], asynchronous=False)
    c.close()
    return [m.offset() for m in got]


def produce(count):
    p = Producer({"bootstrap.servers": KAFKA, "enable.idempotence": True})
    for i in range(count):
        p.produce(TOPIC, str(i).encode(), partition=0)
    equal(p.flush(30), 0, "records unconfirmed")


if os.environ["PHASE"] == "before":

    @check("before: a queue of 100 messages, of which 20 are acknowledged and 30 are held")
    def fill_queue():
        ch = connect().channel()
        ch.queue_declare(QUEUE, durable=True)
        ch.confirm_delivery()
        for i in range(100):
            ch.basic_publish("", QUEUE, str(i).encode(), pika.BasicProperties(delivery_mode=2, message_id=f"m-{i}"))
        tags = [ch.basic_get(QUEUE)[0].delivery_tag for _ in range(50)]
        ch.basic_ack(tags[19], multiple=True)
        equal(ch.queue_declare(QUEUE, passive=True).method.message_count, 50, "messages ready")
        # The connection stays open: it ends with the broker, or with this program.

    @check("before: a topic of 100 records, of which a group has committed 40")
    def fill_topic():
        admin = AdminClient({"bootstrap.servers": KAFKA})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        produce(100)
        equal(read(40), list(range(40)), "offsets")

else:

    @check("after: the queue has all that was not acknowledged; what was held comes first, redelivered")
    def drain_queue():
        ch = connect().channel()
        equal(ch.queue_declare(QUEUE, durable=True, passive=True).method.message_count, 80, "messages ready")
        got = [ch.basic_get(QUEUE) for _ in range(80)]
        equal([b for _, _, b in got], [str(i).encode() for i in range(20, 100)], "messages")
        equal([p.message_id for _, p, _ in got], [f"m-{i}" for i in range(20, 100)], "message ids")
        equal([m.redelivered for m, _, _ in got][:30], [True] * 30, "redelivered, of those that were held")
        ch.basic_ack(got[-1][0].delivery_tag, multiple=True)
        equal(ch.queue_delete(QUEUE).method.message_count, 0, "messages left")

    @check("after: the group goes on from what it committed, and offsets go on from where they were")
    def go_on():
        produce(10)
        equal(read(70), list(range(40, 110)), "offsets")
        at = Consumer({"bootstrap.servers": KAFKA, "group.id": GROUP}).committed([TopicPartition(TOPIC, 0)], 30)[0].offset
        equal(at, 110, "committed offset")


run()
