// Kafka with kafkajs.
'use strict'
const { Kafka, CompressionTypes, CompressionCodecs, AssignerProtocol, PartitionAssigners, logLevel } = require('kafkajs')
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
const { KAFKA, check, equal, fails, fresh, run, until } = require('./checks')

const kafka = new Kafka({ clientId: 'checks', brokers: [KAFKA], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 50, retries: 10 } })

// using connects a producer, consumer or admin, does what is to be done, and disconnects it.
const using = async (client, f) => {
  await client.connect()
  try {
    return await f(client)
  } finally {
    await client.disconnect()
  }
}

const topic = async (numPartitions = 1) => {
  const name = fresh('topic')
  await using(kafka.admin(), a => a.createTopics({ topics: [{ topic: name, numPartitions }], waitForLeaders: true }))
  return name
}

const produce = (t, messages, options = {}, send = {}) =>
  using(kafka.producer({ allowAutoTopicCreation: false, ...options }), p => p.send({ topic: t, messages, ...send }))

const numbers = count => [...Array(count).keys()].map(i => ({ value: String(i), partition: 0 }))

// read runs a consumer of the group until it got count messages, and returns them. It commits what it read.
const read = (t, count, group = fresh('group')) =>
  using(kafka.consumer({ groupId: group, sessionTimeout: 10_000, heartbeatInterval: 500, maxWaitTimeInMs: 100 }), async c => {
    const got = []
    await c.subscribe({ topic: t, fromBeginning: true })
    await c.run({
      autoCommit: false,
      eachMessage: async ({ topic, partition, message }) => {
        if (got.length >= count) return
        got.push(message)
        if (got.length === count) await c.commitOffsets([{ topic, partition, offset: String(Number(message.offset) + 1) }])
      },
    })
    await until(`${count} messages`, () => got.length >= count)
    await c.stop()
    return got
  })

check('topics are created, listed, described and deleted', () =>
  using(kafka.admin(), async a => {
    const t = fresh('topic')
    equal(await a.createTopics({ topics: [{ topic: t, numPartitions: 3 }], waitForLeaders: true }), true, 'created')
    equal(await a.createTopics({ topics: [{ topic: t, numPartitions: 3 }] }), false, 'created again')
    equal((await a.listTopics()).includes(t), true, 'listed')
    const described = await until('a description', () => a.fetchTopicMetadata({ topics: [t] }).catch(() => false))
    equal(described.topics[0].partitions.length, 3, 'partitions')
    const cluster = await a.describeCluster()
    equal(cluster.brokers.map(b => `${b.host}:${b.port}`), [KAFKA], 'brokers')
    await a.deleteTopics({ topics: [t] })
    await until('the topic to be gone', async () => !(await a.listTopics()).includes(t))
    const e = await fails(using(kafka.admin({ retry: { retries: 0 } }), b => b.deleteTopics({ topics: [t] })))
    equal(/does not host this topic/.test(e.message), true, `that it says so: ${e.message}`)
  }))

for (const codec of ['None', 'GZIP', 'Snappy']) {
  check(`produced and consumed, compression: ${codec}`, async () => {
    const t = await topic()
    const messages = [...Array(1000).keys()].map(i => ({ value: Buffer.alloc(i % 500, i % 256), partition: 0 }))
    await produce(t, messages, {}, { compression: CompressionTypes[codec] })
    const got = await read(t, 1000)
    equal(got.map(m => m.offset), messages.map((_, i) => String(i)), 'offsets')
    equal(got.every((m, i) => m.value.equals(messages[i].value)), true, 'values are equal')
  })
}

for (const acks of [-1, 1, 0]) {
  check(`produced with acks=${acks}`, async () => {
    const t = await topic()
    await produce(t, numbers(10), {}, { acks })
    equal((await read(t, 10)).map(m => m.value.toString()), numbers(10).map(m => m.value), 'values')
  })
}

check('an idempotent producer numbers its batches', async () => {
  const t = await topic()
  await using(kafka.producer({ idempotent: true, maxInFlightRequests: 1 }), async p => {
    for (let i = 0; i < 50; i++) {
      const [answer] = await p.send({ topic: t, messages: [{ value: String(i), partition: 0 }] })
      equal(answer.baseOffset, String(i), 'offset')
    }
  })
  equal((await read(t, 50)).map(m => m.value.toString()), numbers(50).map(m => m.value), 'values')
})

check('keys, headers and timestamps come back equal, null and empty too', async () => {
  const t = await topic()
  await produce(t, [
    { key: 'key', value: 'value', headers: { one: ['1', 'again'], empty: '' }, timestamp: '1600000000000' },
    { key: 'tombstone', value: null },
    { key: null, value: '' },
  ].map(m => ({ ...m, partition: 0 })))
  const got = await read(t, 3)
  equal([got[0].key.toString(), got[0].value.toString(), got[0].timestamp], ['key', 'value', '1600000000000'], 'record')
  equal(got[0].headers.one.map(String).concat(String(got[0].headers.empty)), ['1', 'again', ''], 'headers')
  equal(got.slice(1).map(m => [m.key && m.key.toString(), m.value && m.value.toString()]), [['tombstone', null], [null, '']], 'records')
})

check('a group goes on from what it committed', async () => {
  const t = await topic()
  const group = fresh('group')
  await produce(t, numbers(100))
  equal((await read(t, 30, group)).at(-1).offset, '29', 'last offset')
  await using(kafka.admin(), async a => {
    equal((await a.fetchOffsets({ groupId: group, topics: [t] }))[0].partitions.map(p => [p.partition, p.offset]), [[0, '30']], 'offsets committed')
    equal((await a.fetchTopicOffsets(t)).map(p => [p.low, p.high]), [['0', '100']], 'bounds')
  })
  equal((await read(t, 70, group)).map(m => m.offset), [...Array(70).keys()].map(i => String(i + 30)), 'offsets read')
  await using(kafka.admin(), async a => {
    equal((await a.listGroups()).groups.some(g => g.groupId === group), true, 'listed')
    await until('the group to be empty', async () => (await a.describeGroups([group])).groups[0].state === 'Empty')
    await a.setOffsets({ groupId: group, topic: t, partitions: [{ partition: 0, offset: '90' }] })
    equal((await read(t, 10, group))[0].offset, '90', 'first offset after a reset')
    await until('the group to be empty', async () => (await a.describeGroups([group])).groups[0].state === 'Empty')
    await a.deleteGroups([group])
    equal((await a.listGroups()).groups.some(g => g.groupId === group), false, 'listed after it was deleted')
  })
})

check('members of a group share the partitions, and one takes over when another leaves', async () => {
  const t = await topic(4)
  const group = fresh('group')
  const owned = [[], []]
  const members = await Promise.all([0, 1].map(async i => {
    const c = kafka.consumer({ groupId: group, sessionTimeout: 10_000, heartbeatInterval: 300, rebalanceTimeout: 5000, partitionAssigners: [PartitionAssigners.roundRobin] })
    c.on(c.events.GROUP_JOIN, e => {
      owned[i] = e.payload.memberAssignment[t] || []
    })
    await c.connect()
    await c.subscribe({ topic: t, fromBeginning: true })
    await c.run({ eachMessage: async () => {} })
    return c
  }))
  await until('two partitions each', () => owned[0].length === 2 && owned[1].length === 2)
  equal([...owned[0], ...owned[1]].sort(), [0, 1, 2, 3], 'partitions')
  const { groups } = await using(kafka.admin(), a => a.describeGroups([group]))
  equal([groups[0].state, groups[0].members.length, groups[0].members.every(m => AssignerProtocol.MemberAssignment.decode(m.memberAssignment).assignment[t].length === 2)],
    ['Stable', 2, true], 'description')
  await members[1].disconnect()
  await until('all four', () => owned[0].length === 4)
  await members[0].disconnect()
})

check('offsets by time', async () => {
  const t = await topic()
  await produce(t, [...Array(10).keys()].map(i => ({ value: 'x', partition: 0, timestamp: String(1600000000000 + i * 1000) })))
  await using(kafka.admin(), async a => {
    equal((await a.fetchTopicOffsetsByTimestamp(t, 1600000003500))[0].offset, '4', 'first offset at or after')
  })
})

run()
