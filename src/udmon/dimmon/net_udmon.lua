-- For configurations of DiMMon: nodes that send data to other agents, and receive it, over
-- libudmon. local net_udmon = assert(dmm.require_interface('net/udmon'))

local dmm = require('dmm')
local ffi = require('ffi')

assert(dmm.require_interface('net/udmon', 'll'))

local net_udmon = {}

net_udmon.Send = dmm.Module:new_type('net/udmon/send')
net_udmon.Recv = dmm.Module:new_type('net/udmon/recv')

-- Fill a field of a message, whose size it tells; a text too long is an error here.
local function set(payload, field, text)
  text = text or ''
  if #text >= ffi.sizeof(payload[field]) then
    error(field .. ' is longer than ' .. ffi.sizeof(payload[field]) - 1 .. ' bytes', 4)
  end
  payload[field] = text
end

local function request(node, type, cmd, payload_type, values, what)
  local msg, payload = dmm.msg_create {
    payload_type = payload_type,
    type = type,
    cmd = cmd,
  }
  for field, text in pairs(values) do
    set(payload, field, text)
  end
  dmm.assert_good_resp(dmm.msg_send(node.nodeid, msg), what, 3)
end

local function stats(node, type, cmd, response_type)
  local msg = dmm.msg_create { len = 0, type = type, cmd = cmd }
  local response = dmm.msg_send(node.nodeid, msg)

  dmm.assert_good_resp(response, 'Cannot get statistics of node ' .. node.nodeid, 3)
  -- The message is gone when we return.
  return ffi.new(response_type, ffi.cast(response_type .. ' *', response.cm_data)[0])
end

-- connect_to{addr = '[SCHEME://]HOST:PORT', secret_file = ..., source = ..., name = ...}; all but
-- addr may be left out.
function net_udmon.Send:connect_to(options)
  request(self, ffi.C.DMM_MSGTYPE_UDMONSEND, ffi.C.DMM_MSG_UDMONSEND_CONNECT,
    'struct dmm_msg_udmonsend_connect', {
      addr = options.addr,
      secret_file = options.secret_file or '',
      source = options.source or '',
      name = options.name or '',
    }, 'Cannot connect to ' .. tostring(options.addr))
end

function net_udmon.Send:getstats()
  return stats(self, ffi.C.DMM_MSGTYPE_UDMONSEND, ffi.C.DMM_MSG_UDMONSEND_GETSTATS,
    'struct dmm_msg_udmonsend_getstats_resp')
end

-- bind{addr = '[SCHEME://]HOST:PORT', secret_file = ...}
function net_udmon.Recv:bind(options)
  request(self, ffi.C.DMM_MSGTYPE_UDMONRECV, ffi.C.DMM_MSG_UDMONRECV_BIND,
    'struct dmm_msg_udmonrecv_bind', {
      addr = options.addr,
      secret_file = options.secret_file or '',
    }, 'Cannot listen on ' .. tostring(options.addr))
end

function net_udmon.Recv:getstats()
  return stats(self, ffi.C.DMM_MSGTYPE_UDMONRECV, ffi.C.DMM_MSG_UDMONRECV_GETSTATS,
    'struct dmm_msg_udmonrecv_getstats_resp')
end

return net_udmon
