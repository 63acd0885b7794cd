// AMQP and Kafka over one log: what amqplib publishes is what kafkajs reads, and the other way.
'use strict'
const amqp = require('amqplib')
const { Kafka, logLevel } = require('kafkajs')
const { AMQP, KAFKA, check, equal, fresh, run, until } = require('./checks')

const kafka = new Kafka({ clientId: 'checks', brokers: [KAFKA], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 50 } })

// scene makes a check with an AMQP connection of its own, closed in the end.
const scene = (what, f) =>
  check(what, async () => {
    const connection = await amqp.connect(`amqp://guest:guest@${AMQP}/`)
    connection.on('error', () => {}) // told by what was being done
    try {
      await f(connection)
    } finally {
      await connection.close().catch(() => {})
    }
  })

// consumer runs a Kafka consumer that hands over each message, until f is done.
const consumer = async (group, topic, each, f) => {
  const c = kafka.consumer({ groupId: group, maxWaitTimeInMs: 100 })
  await c.connect()
  try {
    await c.subscribe({ topic, fromBeginning: true })
    await c.run({ autoCommit: false, eachMessage: async m => each(m.message) })
    await f(c)
  } finally {
    await c.disconnect()
  }
}

scene('an AMQP publish is a Kafka record with its properties and headers', async connection => {
  const ch = await connection.createConfirmChannel()
  const queue = fresh('queue')
  await ch.assertQueue(queue, { durable: true })
  ch.sendToQueue(queue, Buffer.from('body'), {
    contentType: 'text/plain', messageId: 'm', correlationId: 'c', persistent: true, headers: { 'x-record-key': 'k', n: 7, half: 0.5, yes: true, list: [1, 'two'] },
  })
  await ch.waitForConfirms()
  const got = []
  await consumer(fresh('group'), queue, m => got.push(m), () => until('the record', () => got.length === 1))
  const [m] = got
  const headers = Object.fromEntries(Object.entries(m.headers).filter(([k]) => k !== '_amqp').map(([k, v]) => [k, String(v)]))
  equal([String(m.key), String(m.value), m.offset], ['k', 'body', '0'], 'record')
  equal({ ...headers, list: JSON.parse(headers.list) },
    { n: '7', half: '0.5', yes: 'true', list: [1, 'two'], 'content-type': 'text/plain', 'message-id': 'm', 'correlation-id': 'c' }, 'headers')
})

scene('a Kafka record is an AMQP message with its key and headers', async connection => {
  const ch = await connection.createChannel()
  const queue = fresh('queue')
  await ch.assertQueue(queue, { durable: true })
  const p = kafka.producer()
  await p.connect()
  await p.send({ topic: queue, messages: [{ key: 'k', value: 'value', timestamp: '1600000000123', headers: { 'content-type': 'text/plain', a: 'b' } }] })
  await p.disconnect()
  const m = await until('the message', () => ch.get(queue))
  equal([m.content.toString(), m.fields.routingKey, m.properties.contentType, m.properties.timestamp], ['value', queue, 'text/plain', 1600000000], 'message')
  const h = m.properties.headers
  equal([h['x-record-key'], h['x-timestamp-ms'], h['x-partition'], h.a, 'x-stream-offset' in h], ['k', 1600000000123, 0, 'b', false], 'headers')
  ch.ack(m)
  equal((await ch.checkQueue(queue)).messageCount, 0, 'messages ready')
})

scene('taking with AMQP while a Kafka group reads: each sees every message, once', async connection => {
  const ch = await connection.createConfirmChannel()
  const queue = fresh('queue')
  await ch.assertQueue(queue, { durable: true })
  const read = []
  const taken = []
  await consumer(fresh('group'), queue, m => read.push(String(m.value)), async () => {
    for (let i = 0; i < 500; i++) ch.sendToQueue(queue, Buffer.from(String(i)))
    await ch.waitForConfirms()
    await until('the group to read all', () => read.length >= 500)
    await ch.prefetch(50)
    await ch.consume(queue, m => {
      taken.push(m.content.toString())
      ch.ack(m)
    })
    await until('all to be taken', () => taken.length >= 500)
  })
  const all = [...Array(500).keys()].map(String)
  equal([read, taken].map(x => JSON.stringify(x) === JSON.stringify(all)), [true, true], 'whether the group, and the queue, gave all in order')
  const a = kafka.admin()
  await a.connect()
  await until('the records to be gone', async () => (await a.fetchTopicOffsets(queue))[0].low === '500')
  await a.disconnect()
})

run()
