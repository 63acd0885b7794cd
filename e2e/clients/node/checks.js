// What the JavaScript client programs have in common: how a check is named, run and reported.
//
// Each check prints one line, `ok NAME` or `FAIL NAME: why`, which the runner (e2e/clients) reads. The addresses come in the environment: AMQP_ADDRESS
// and KAFKA_ADDRESS (host:port), NAME_PREFIX (begins every name this run makes, so that runs do not meet).
'use strict'
const assert = require('node:assert/strict')

exports.AMQP = process.env.AMQP_ADDRESS || ''
exports.KAFKA = process.env.KAFKA_ADDRESS || ''

// How long one check may take, in ms, on a machine that is busy with others.
const LIMIT = 60_000

const checks = []
let numbers = 0

// check makes the function a check with this name.
exports.check = (what, f) => checks.push({ what, f })

// fresh returns a name that nobody else uses.
exports.fresh = kind => `${process.env.NAME_PREFIX || 'check'}.${kind}.${process.pid}.${++numbers}`

exports.equal = (got, want, what) => {
  try {
    assert.deepEqual(got, want)
  } catch {
    throw new Error(`${what} is ${short(got)}, want ${short(want)}`)
  }
}

const short = value => {
  const text = JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? `${v}n` : v)) ?? 'undefined'
  return text.length <= 300 ? text : `${text.slice(0, 300)}... (${text.length} characters)`
}

// until waits for a condition, a function that may be async, to return something true, and returns that.
exports.until = async (what, condition, limit = 30_000) => {
  const deadline = Date.now() + limit
  for (let pause = 1; ; pause = Math.min(2 * pause, 50)) {
    const result = await condition()
    if (result) return result
    if (Date.now() > deadline) throw new Error(`waited ${limit} ms for ${what}`)
    await new Promise(resolve => setTimeout(resolve, pause))
  }
}

// fails returns the error with which a promise is rejected.
exports.fails = async promise => {
  let result
  try {
    result = await promise
  } catch (e) {
    return e
  }
  throw new Error(`it succeeded with ${short(result)}, want an error`)
}

// run runs all checks, or those whose names contain one of the program's arguments. It exits with 1 if one failed.
exports.run = async () => {
  let failed = 0
  const wanted = process.argv.slice(2)
  for (const { what, f } of checks) {
    if (wanted.length > 0 && !wanted.some(w => what.includes(w))) continue
    let timer
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`not done within ${LIMIT} ms`)), LIMIT)
    })
    try {
      await Promise.race([f(), late])
      console.log('ok', what)
    } catch (e) {
      failed++
      const line = /\((?:.*\/)?([\w.]+\.js:\d+)/.exec((e.stack || '').split('\n').filter(l => l.includes(__dirname) && !l.includes('checks.js')).join('\n'))
      console.log(`FAIL ${what}: ${line ? line[1] + ': ' : ''}${e.name}: ${String(e.message).replaceAll('\n', ' ')}`)
    }
    clearTimeout(timer)
  }
  process.exit(failed > 0 ? 1 : 0)
}
