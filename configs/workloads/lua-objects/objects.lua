-- Shops that open, trade and close: records with strings, closures over them, a text
-- that is written from them and parsed again.  Prints a digest of each round.

local seed = 20260101
local function random(n)
    seed = (seed * 1103515245 + 12345) % 2147483648
    return seed // 65536 % n + 1
end

local first = { "north", "old", "green", "river", "stone", "silver", "little" }
local second = { "gate", "mill", "bridge", "market", "garden", "tower" }

local function shop(number)
    local goods = {}
    for i = 1, random(12) do
        goods[i] = { name = first[random(#first)] .. "-" .. number .. "-" .. i, price = random(900) }
    end
    local sold = 0
    return {
        name = first[random(#first)] .. " " .. second[random(#second)] .. " " .. number,
        goods = goods,
        sell = function(self)
            local item = #self.goods > 0 and table.remove(self.goods, random(#self.goods))
            if item then sold = sold + item.price end
            return sold
        end,
    }
end

local function write(shops)
    local parts = {}
    for _, s in ipairs(shops) do
        local words = {}
        for _, item in ipairs(s.goods) do
            words[#words + 1] = string.format("%s=%d", item.name, item.price)
        end
        parts[#parts + 1] = s.name .. ":" .. table.concat(words, ",")
    end
    return table.concat(parts, "\n")
end

local function parse(text)
    local found = {}
    for line in text:gmatch("[^\n]+") do
        local name, rest = line:match("^([^:]*):(.*)$")
        local goods = {}
        for item, price in rest:gmatch("([^=,]+)=(%d+)") do
            goods[item] = tonumber(price)
        end
        found[name] = goods
    end
    return found
end

local shops = {}
for round = 1, tonumber(arg[1] or 12) do
    for number = 1, 400 do
        shops[#shops + 1] = shop(round * 1000 + number)
    end
    local earned = 0
    for _, s in ipairs(shops) do
        earned = earned + s:sell()
    end
    if round % 4 == 0 then
        for i = #shops, 1, -1 do
            if random(3) > 1 then table.remove(shops, i) end
        end
    end
    local text = write(shops)
    local n, value = 0, 0
    for _, goods in pairs(parse(text)) do
        for _, price in pairs(goods) do
            n, value = n + 1, value + price
        end
    end
    print(round, #shops, #text, earned, n, value)
end
