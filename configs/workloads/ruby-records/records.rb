# Journeys between towns: read from text, grouped, joined and written again.

seed = 7
random = lambda do |n|
  seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
  (seed >> 16) % n
end

Journey = Struct.new(:from, :to, :day, :travellers, :note)
towns = Array.new(120) { |i| "town-#{i}-#{'abcdefghij'[i % 10] * (i % 17)}" }

def write(journeys)
  journeys.map { |j| [j.from, j.to, j.day, j.travellers.join('+'), j.note].join(';') }.join("\n")
end

def parse(text)
  text.each_line(chomp: true).map do |line|
    from, to, day, travellers, note = line.split(';')
    Journey.new(from, to, day.to_i, travellers.split('+'), note)
  end
end

kept = []
(ARGV[0] || 8).to_i.times do |round|
  fresh = Array.new(3_000) do |i|
    travellers = Array.new(1 + random[6]) { |k| "traveller number #{random[5_000]} of party #{k}" }
    note = 'luggage ' * random[20] + "from round #{round}, #{i}"
    Journey.new(towns[random[120]], towns[random[120]], random[365], travellers, note)
  end
  kept.concat(parse(write(fresh)))
  kept.reject! { |j| j.day % 3 == round % 3 } if round.odd?
  by_town = kept.group_by(&:from)
  busiest = by_town.max_by { |town, js| [js.sum { |j| j.travellers.size }, town] }
  names = kept.flat_map(&:travellers).tally.sort_by { |name, n| [-n, name] }.first(3)
  puts [round, kept.size, busiest[0], busiest[1].size, names.inspect].join(' ')
end
