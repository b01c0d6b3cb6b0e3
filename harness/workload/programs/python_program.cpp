// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/programs/python_program.h"

#include <array>

#include <sys/random.h>

#include "harness/base/error.h"

namespace unmask {
namespace {

// The input is a line with the token and then the program. What the driver needs after the program
// is bound before it runs, because the program may replace anything in any module.
const char* const run_driver = R"python(
def drive():
    import os, sys
    write, leave, utf8 = os.write, os._exit, str.encode
    with os.fdopen(3, 'rb') as source:
        token, _, text = source.read().partition(b'\n')
    text = text.decode('utf-8', 'replace')
    write(4, b'S')
    try:
        exec(text, {})
    except BaseException as problem:
        try:
            reason = 'failed: %s' % problem
        except BaseException:
            reason = 'failed: '
        write(4, b'F' + utf8(reason[:2000], 'utf-8', 'replace'))
        leave(1)
    write(4, b'P' + token)
    leave(0)
drive()
)python";

// The input is a line with the entry point and then the answer.
const char* const reduce_driver = R"python(
import ast, os
with os.fdopen(3, 'rb') as source:
    entry, _, text = source.read().decode('utf-8', 'replace').partition('\n')
os.write(4, b'S')

def parsed(lines):
    try:
        return ast.parse('\n'.join(lines))
    except (SyntaxError, MemoryError, ValueError, RecursionError):
        return None

text = text.replace('\t', '    ').replace('\r\n', '\n').replace('\r', '\n').strip() + '\n'
lines = text.splitlines()[:100]
filled = [0]
for line in lines:
    filled.append(filled[-1] + bool(line.strip()))
best, longest = None, 0
for first in range(len(lines)):
    for last in range(len(lines), first, -1):
        size = filled[last] - filled[first]
        if size <= longest:
            break
        tree = parsed(lines[first:last])
        if tree is not None:
            best, longest = tree, size

def named(tree):
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}

imports, found = [], {}
for node in best.body if best else []:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        imports.append(node)
    elif isinstance(node, ast.ClassDef):
        found[node.name] = node
    elif isinstance(node, ast.FunctionDef):
        if any(isinstance(inner, ast.Return) for inner in ast.walk(node)):
            found[node.name] = node
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        found[node.targets[0].id] = node
reached, open_names = {entry}, [entry]
while open_names:
    node = found.get(open_names.pop())
    for name in named(node) - reached if node is not None else ():
        reached.add(name)
        open_names.append(name)
kept = imports + [node for name, node in found.items() if name in reached]
answer = '\n'.join(ast.unparse(node) for node in kept).encode('utf-8', 'replace')
while answer:
    answer = answer[os.write(4, answer):]
)python";

std::string fresh_token() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw environment_error("this machine gives no random numbers for the token of a program");
  }
  std::string token;
  for (const unsigned char byte : bytes) {
    token += "0123456789abcdef"[byte / 16];
    token += "0123456789abcdef"[byte % 16];
  }
  return token;
}

}  // namespace

const char* name_of(program_verdict verdict) {
  switch (verdict) {
    case program_verdict::pass:
      return "pass";
    case program_verdict::timeout:
      return "timeout";
    case program_verdict::fail:
      break;
  }
  return "fail";
}

program_result run_python_program(const std::string& text, const sandbox_limits& limits) {
  const std::string token = fresh_token();
  const sandbox_result ran = run_in_sandbox(run_driver, token + "\n" + text, limits);
  program_result result;
  result.output = ran.output;
  if (ran.report == "P" + token) {
    result.verdict = program_verdict::pass;
    result.reason = "passed";
  } else if (ran.timed_out) {
    result.verdict = program_verdict::timeout;
    result.reason = "timed out";
  } else {
    const bool said = !ran.report.empty() && ran.report[0] == 'F';
    result.reason = said ? ran.report.substr(1) : "failed: it ended before its last statement";
  }
  return result;
}

std::string reachable_python_code(const std::string& text, const std::string& entry_point,
                                  const sandbox_limits& limits) {
  return run_in_sandbox(reduce_driver, entry_point + "\n" + text, limits).report;
}

}  // namespace unmask
