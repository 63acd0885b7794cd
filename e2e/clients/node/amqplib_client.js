// AMQP 0-9-1 with amqplib.
'use strict'
const amqp = require('amqplib')
const { AMQP, check, equal, fails, fresh, run, until } = require('./checks')

const url = `amqp://guest:guest@${AMQP}/`

// scene makes a check with a connection of its own, closed in the end, whatever happened to it.
const scene = (what, f) =>
  check(what, async () => {
    const connection = await connect()
    try {
      await f(connection)
    } finally {
      await connection.close().catch(() => {})
    }
  })

const connect = async () => {
  const connection = await amqp.connect(url)
  connection.on('error', () => {}) // told by what was being done
  return connection
}

const channel = async (connection, make = 'createChannel') => {
  const ch = await connection[make]()
  ch.closed = new Promise(resolve => ch.on('error', resolve))
  return ch
}

// fill makes a queue of its own with count messages, '0', '1' and so on, each confirmed.
const fill = async (connection, count) => {
  const ch = await channel(connection, 'createConfirmChannel')
  const queue = fresh('queue')
  await ch.assertQueue(queue, { durable: true })
  for (let i = 0; i < count; i++) ch.sendToQueue(queue, Buffer.from(String(i)), { persistent: true })
  await ch.waitForConfirms()
  await ch.close()
  return queue
}

const ready = async (ch, queue) => (await ch.checkQueue(queue)).messageCount

scene('5000 publishes in flight, each confirmed once, consumed in order', async connection => {
  const ch = await channel(connection, 'createConfirmChannel')
  const queue = fresh('queue')
  await ch.assertQueue(queue, { durable: true })
  let confirmed = 0
  for (let i = 0; i < 5000; i++) ch.sendToQueue(queue, Buffer.from(String(i)), {}, err => (err ? 0 : confirmed++))
  await ch.waitForConfirms()
  equal(confirmed, 5000, 'confirms')
  await ch.prefetch(100)
  const got = []
  await ch.consume(queue, m => {
    got.push(m.content.toString())
    ch.ack(m)
  })
  await until('5000 messages', () => got.length >= 5000)
  equal(got, [...Array(5000).keys()].map(String), 'messages')
  await until('the acks to arrive', async () => (await ch.deleteQueue(queue)).messageCount === 0)
})

scene('get, ackAll, and nack with requeue of all', async connection => {
  const queue = await fill(connection, 4)
  const ch = await channel(connection)
  for (let i = 0; i < 4; i++) equal((await ch.get(queue)).content.toString(), String(i), 'message')
  equal(await ch.get(queue), false, 'get of an empty queue')
  ch.nackAll(true)
  const again = []
  for (let i = 0; i < 4; i++) again.push(await ch.get(queue))
  equal(again.map(m => [m.content.toString(), m.fields.redelivered, m.fields.messageCount]), [0, 1, 2, 3].map(i => [String(i), true, 3 - i]), 'messages')
  ch.ackAll()
  equal(await ready(ch, queue), 0, 'messages ready')
  await ch.close()
  equal(await ready(await channel(connection), queue), 0, 'messages ready after the channel closed')
})

scene('closing a channel brings back what it held', async connection => {
  const queue = await fill(connection, 3)
  const first = await channel(connection)
  await first.get(queue)
  await first.get(queue)
  await first.close()
  const ch = await channel(connection)
  const got = []
  for (let i = 0; i < 3; i++) got.push(await ch.get(queue))
  equal(got.map(m => [m.content.toString(), m.fields.redelivered]), [['0', true], ['1', true], ['2', false]], 'messages')
})

scene('recover, reject, cancel', async connection => {
  const queue = await fill(connection, 3)
  const ch = await channel(connection)
  await ch.prefetch(2)
  const held = []
  const { consumerTag } = await ch.consume(queue, m => held.push(m))
  await until('2 deliveries', () => held.length === 2)
  await ch.cancel(consumerTag)
  await ch.recover()
  equal(await ready(ch, queue), 3, 'messages ready')
  const m = await ch.get(queue)
  equal([m.content.toString(), m.fields.redelivered], ['0', true], 'message')
  ch.reject(m, false)
  equal(await ready(ch, queue), 2, 'messages ready after a reject')
})

scene('a mandatory message without a queue is returned before its confirm', async connection => {
  const ch = await channel(connection, 'createConfirmChannel')
  const events = []
  ch.on('return', m => events.push([m.fields.replyCode, m.fields.replyText, m.content.toString()]))
  ch.publish('', fresh('nowhere'), Buffer.from('back'), { mandatory: true }, () => events.push('confirmed'))
  await ch.waitForConfirms()
  equal(events, [[312, 'NO_ROUTE', 'back'], 'confirmed'], 'events')
})

scene('errors of a channel carry their codes and leave the connection open', async connection => {
  const queue = await fill(connection, 0)
  const codes = {}
  const expect = async (what, f) => {
    const ch = await channel(connection)
    await Promise.resolve(f(ch)).catch(() => {})
    codes[what] = (await ch.closed).code
  }
  await expect('declared with another durability', ch => ch.assertQueue(queue, { durable: false }))
  await expect('declared with a bad argument', ch => ch.assertQueue(fresh('queue'), { arguments: { 'x-expires': -1 } }))
  await expect('unknown queue', ch => ch.checkQueue(fresh('unknown')))
  await expect('consume of an unknown queue', ch => ch.consume(fresh('unknown'), () => {}))
  await expect('unknown exchange', ch => ch.publish(fresh('unknown'), 'key', Buffer.from('')))
  await expect('unknown delivery tag', ch => ch.ack({ fields: { deliveryTag: 5 } }))
  equal(codes, {
    'declared with another durability': 406, 'declared with a bad argument': 406, 'unknown queue': 404, 'consume of an unknown queue': 404,
    'unknown exchange': 404, 'unknown delivery tag': 406,
  }, 'codes')
  equal(await ready(await channel(connection), queue), 0, 'messages ready')
})

scene('every property and typed header comes back equal', async connection => {
  const queue = await fill(connection, 0)
  const ch = await channel(connection)
  const sent = {
    contentType: 'application/json', contentEncoding: 'identity', deliveryMode: 2, priority: 3, correlationId: 'c', replyTo: 'r', expiration: '600000',
    messageId: 'm', timestamp: 1700000000, type: 't', userId: 'guest', appId: 'a',
    headers: {
      text: 'grüße', yes: true, no: false, byte: 1, short: -300, int: 70000, long: 2 ** 40, double: 2.5, nothing: null, bytes: Buffer.from([0, 255]),
      list: [1, 'two', [3.5], { four: 4 }], table: { a: { b: [] } }, empty: {},
      float: { '!': 'float', value: 0.5 }, time: { '!': 'timestamp', value: 1600000000 }, decimal: { '!': 'decimal', value: { digits: 314, places: 2 } },
    },
  }
  ch.sendToQueue(queue, Buffer.from('{}'), sent)
  const m = await until('the message', () => ch.get(queue, { noAck: true }))
  const want = { ...sent, headers: { ...sent.headers, float: 0.5 } }
  const got = Object.fromEntries(Object.keys(want).map(k => [k, m.properties[k]]))
  equal(got, want, 'properties')
  equal(Object.keys(m.properties.headers), Object.keys(want.headers), 'order of headers')
})

scene('bodies from nothing to two megabytes, on several channels at once', async connection => {
  const sizes = [0, 1, 4088, 4089, 131064, 131065, 2 << 20]
  await Promise.all(sizes.map(async size => {
    const queue = await fill(connection, 0)
    const ch = await channel(connection)
    const body = Buffer.alloc(size, 'polylog')
    ch.sendToQueue(queue, body)
    const m = await until('the message', () => ch.get(queue, { noAck: true }))
    equal([m.content.length, m.content.equals(body)], [size, true], 'length, and whether it is equal')
  }))
})

scene('consumers share a queue evenly by prefetch; a slow one does not block', async connection => {
  const queue = await fill(connection, 100)
  const counts = [0, 0]
  for (const i of [0, 1]) {
    const ch = await channel(connection)
    await ch.prefetch(5)
    await ch.consume(queue, m => {
      counts[i]++
      if (i === 1) ch.ack(m) // the first one holds what it got
    })
  }
  await until('all that the first does not hold', () => counts[1] === 95)
  equal(counts, [5, 95], 'messages got')
})

scene('the reply to a failed login and to an unknown vhost', async () => {
  const login = await fails(amqp.connect(`amqp://guest:wrong@${AMQP}/`))
  const vhost = await fails(amqp.connect(`amqp://guest:guest@${AMQP}/nowhere`))
  equal([/403/.test(login.message), /530|ConnectionClose/.test(vhost.message)], [true, true], `codes in "${login.message}" and "${vhost.message}"`)
})

run()
