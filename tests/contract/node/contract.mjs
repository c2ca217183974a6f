// The OpenAI Node SDK against a gateway in front of the sample fleet; SPECROUTE_URL says where it is.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';

const url = process.env.SPECROUTE_URL;
const slow = process.env.SPECROUTE_SLOW_MODEL;
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });

const model = 'gemma-4-31b';
const messages = [{ role: 'user', content: 'How should I prepare for the talk with my manager?' }];
const chat = { model, messages, seed: 5 };
const endless = { model: slow, messages, max_tokens: 3000, ignore_eos: true };
const aboutWeather = [{ role: 'user', content: 'What is the weather in Lisbon this week?' }];
const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'Weather of a city',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
};

const collect = async (stream) => {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
};
const textOf = (chunks) => chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('');
const hasUsage = (chunk) => chunk.usage != null;
const countsOf = (chunks) => chunks.filter(hasUsage).map((chunk) => chunk.usage.completion_tokens);

const untilNothingRunsOn = async (name) => {
  for (let deadline = Date.now() + 20_000; Date.now() < deadline; ) {
    const status = await (await fetch(`${url}/status`)).json();
    const backend = status.fleet.backends.find((one) => one.name === name);
    if (backend.in_flight === 0 && backend.running === 0) return;
  }
  assert.fail(`${name} still has something to do`);
};

test('chat', async () => {
  const answer = await client.chat.completions.create(chat);
  assert.ok(answer.choices[0].message.content);
  assert.equal(answer.choices[0].finish_reason, 'stop');
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
});

test('a streamed chat says the same and has no usage that was not asked for', async () => {
  const whole = await client.chat.completions.create(chat);
  const chunks = await collect(await client.chat.completions.create({ ...chat, stream: true }));
  assert.equal(textOf(chunks), whole.choices[0].message.content);
  assert.ok(chunks.every((chunk) => !hasUsage(chunk) && chunk.choices.length === 1));
});

test('usage that was asked for comes exactly once', async () => {
  const whole = await client.chat.completions.create(chat);
  const options = { stream: true, stream_options: { include_usage: true } };
  const chunks = await collect(await client.chat.completions.create({ ...chat, ...options }));
  assert.deepEqual(countsOf(chunks), [whole.usage.completion_tokens]);
  assert.deepEqual(chunks.at(-1).choices, []);
});

test('completions', async () => {
  const request = { model, prompt: 'Once upon a time', max_tokens: 12, seed: 5 };
  const whole = await client.completions.create({ ...request, logprobs: 2 });
  assert.equal(whole.usage.completion_tokens, 12);
  assert.equal(whole.choices[0].logprobs.tokens.length, 12);
  const chunks = await collect(await client.completions.create({ ...request, stream: true }));
  assert.equal(chunks.map((chunk) => chunk.choices[0].text).join(''), whole.choices[0].text);
  assert.ok(!chunks.some(hasUsage));
  const options = { stream: true, stream_options: { include_usage: true } };
  const more = await collect(await client.completions.create({ ...request, ...options }));
  assert.deepEqual(countsOf(more), [12]);
});

test('a tool is called and its result is answered', async () => {
  const request = { model, messages: aboutWeather, tools: [weather] };
  const { finish_reason: reason, message } = (await client.chat.completions.create(request)).choices[0];
  assert.equal(reason, 'tool_calls');
  assert.equal(message.tool_calls[0].function.name, 'get_weather');
  assert.ok(JSON.parse(message.tool_calls[0].function.arguments).city);
  const result = { role: 'tool', tool_call_id: message.tool_calls[0].id, content: 'Rain.' };
  const turns = [...aboutWeather, message, result];
  const answer = await client.chat.completions.create({ ...request, messages: turns });
  assert.ok(answer.choices[0].message.content);
});

test('a required tool is called whatever was asked', async () => {
  const request = { ...chat, tools: [weather], tool_choice: 'required' };
  const answer = await client.chat.completions.create(request);
  assert.equal(answer.choices[0].message.tool_calls.length, 1);
});

test('a streamed tool call can be put together', async () => {
  const stream = client.chat.completions.stream({ model, messages: aboutWeather, tools: [weather] });
  const { message } = (await stream.finalChatCompletion()).choices[0];
  assert.ok(JSON.parse(message.tool_calls[0].function.arguments).city);
});

test('logprobs', async () => {
  const request = { ...chat, max_tokens: 5, logprobs: true, top_logprobs: 3 };
  const choice = (await client.chat.completions.create(request)).choices[0];
  assert.equal(choice.logprobs.content.map((entry) => entry.token).join(''), choice.message.content);
  assert.deepEqual(choice.logprobs.content.map((entry) => entry.top_logprobs.length), [3, 3, 3, 3, 3]);
  const chunks = await collect(await client.chat.completions.create({ ...request, stream: true }));
  const entries = chunks.flatMap((chunk) => chunk.choices[0].logprobs?.content ?? []);
  assert.equal(entries.map((entry) => entry.token).join(''), choice.message.content);
});

test('several choices', async () => {
  const request = { ...chat, n: 3, max_tokens: 20 };
  const answer = await client.chat.completions.create(request);
  assert.deepEqual(answer.choices.map((choice) => choice.index), [0, 1, 2]);
  const chunks = await collect(await client.chat.completions.create({ ...request, stream: true }));
  const ended = chunks.map((chunk) => chunk.choices[0]).filter((choice) => choice.finish_reason);
  assert.deepEqual(ended.map((choice) => choice.index).sort(), [0, 1, 2]);
});

test('an answer fits the schema that was given', async () => {
  const schema = { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'] };
  const format = { type: 'json_schema', json_schema: { name: 'verdict', schema } };
  const answer = await client.chat.completions.create({ ...chat, response_format: format });
  assert.equal(typeof JSON.parse(answer.choices[0].message.content).ok, 'boolean');
});

test('a stop string ends the answer before it', async () => {
  const text = (await client.chat.completions.create(chat)).choices[0].message.content;
  const word = text.split(/\s+/)[6];
  const { message, finish_reason: reason } = (await client.chat.completions.create({ ...chat, stop: [word] }))
    .choices[0];
  assert.equal(message.content, text.slice(0, text.indexOf(word)));
  assert.equal(reason, 'stop');
});

for (const limit of ['max_tokens', 'max_completion_tokens']) {
  test(`${limit} is kept`, async () => {
    const answer = await client.chat.completions.create({ ...chat, [limit]: 7 });
    assert.equal(answer.choices[0].finish_reason, 'length');
    assert.equal(answer.usage.completion_tokens, 7);
  });
}

test('models can be listed and looked up', async () => {
  const names = (await collect(await client.models.list())).map((one) => one.id);
  assert.ok(names.includes(model));
  for (const name of names) assert.equal((await client.models.retrieve(name)).id, name);
  await assert.rejects(client.models.retrieve('nope'), OpenAI.NotFoundError);
});

const refused = [
  ['a bad model', { model: 'nope' }, OpenAI.NotFoundError, /`nope` does not exist/],
  ['a bad temperature', { temperature: -1 }, OpenAI.BadRequestError, /temperature must be non-negative/],
  ['a wrong type', { max_tokens: 'many' }, OpenAI.BadRequestError, /valid integer/],
  [
    'a prompt that is too long',
    { messages: [{ role: 'user', content: 'word '.repeat(9000) }] },
    OpenAI.BadRequestError,
    /maximum context length is 4096 tokens/,
  ],
];
for (const [name, changes, kind, words] of refused) {
  for (const stream of [false, true]) {
    test(`${name} is told by status and words${stream ? ', streaming' : ''}`, async () => {
      await assert.rejects(client.chat.completions.create({ ...chat, ...changes, stream }), (error) => {
        assert.ok(error instanceof kind, `${error}`);
        assert.match(error.message, words);
        return true;
      });
    });
  }
}

test('min_p goes to a server that takes it', async () => {
  const { response } = await client.chat.completions.create({ ...chat, min_p: 0.1 }).withResponse();
  assert.equal(response.headers.get('x-specroute-backend'), 'gemma31-none');
});

test('an answer says who gave it', async () => {
  const headers = { 'x-request-id': 'node-1', 'x-specroute-workload': 'math' };
  const { data, response } = await client.chat.completions.create(chat, { headers }).withResponse();
  assert.equal(data.id, 'chatcmpl-node-1');
  assert.equal(data._request_id, 'node-1');
  assert.equal(response.headers.get('x-specroute-workload'), 'math');
  assert.match(response.headers.get('x-specroute-backend'), /^gemma31-/);
  assert.ok(response.headers.get('x-specroute-policy'));
});

test('the caller may choose the backend', async () => {
  const headers = { 'x-specroute-backend': 'gemma31-dspark7' };
  const { response } = await client.chat.completions.create(chat, { headers }).withResponse();
  assert.equal(response.headers.get('x-specroute-backend'), 'gemma31-dspark7');
});

test('a client that waits no longer frees its slot', async () => {
  await assert.rejects(
    client.chat.completions.create(endless, { timeout: 300 }),
    OpenAI.APIConnectionTimeoutError,
  );
  await untilNothingRunsOn('slow');
});

test('a stream that is left frees its slot', async () => {
  for await (const chunk of await client.chat.completions.create({ ...endless, stream: true })) {
    assert.equal(chunk.choices.length, 1);
    break;
  }
  await untilNothingRunsOn('slow');
});

test('a stream that is aborted frees its slot', async () => {
  const stream = await client.chat.completions.create({ ...endless, stream: true });
  await stream[Symbol.asyncIterator]().next();
  stream.controller.abort();
  await untilNothingRunsOn('slow');
});
