# Jobs on a pool of threads, as web and background workers in Ruby have it: each thread takes an
# order as JSON from a queue and renders it to a page, one more keeps some pages for a while.
#
# Usage: ruby jobs.rb [orders]

require 'erb'
require 'json'

N_THREADS = 10
N_KEPT = 2_000
TEMPLATE = ERB.new(<<~HTML, trim_mode: '-')
  <h1><%= order['customer'] %></h1>
  <%- order['lines'].each do |line| -%>
  <tr><td><%= ERB::Util.h(line['item']) %></td><td><%= line['note'] %></td><td><%= line['prices'].sum %></td></tr>
  <%- end -%>
HTML

def make_order(random, n_lines)
  lines = Array.new(n_lines) do
    prices = Array.new(random.rand(1..7)) { random.rand(10_000) }
    { item: "item <#{random.rand(5_000)}>", note: 'x' * random.rand(900), prices: prices }
  end
  JSON.generate({ customer: "customer #{random.rand(900)}", lines: lines })
end

def render(text)
  TEMPLATE.result_with_hash(order: JSON.parse(text))
end

orders = SizedQueue.new(32)
pages = Queue.new
workers = Array.new(N_THREADS) do
  Thread.new do
    while (text = orders.pop)
      pages << render(text)
    end
  end
end
bytes = 0
keeper = Thread.new do
  kept = []
  while (page = pages.pop)
    bytes += page.bytesize
    kept << page if (page.bytesize % 5).zero?
    kept.shift if kept.size > N_KEPT
  end
end

random = Random.new(7)
n_orders = (ARGV[0] || 4_000).to_i
n_orders.times { |i| orders << make_order(random, (i % 40).zero? ? 400 : random.rand(2..30)) }
N_THREADS.times { orders << nil }
workers.each(&:join)
pages << nil
keeper.join
puts "#{n_orders} orders, #{bytes} bytes"
