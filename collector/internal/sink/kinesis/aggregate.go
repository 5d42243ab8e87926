package kinesis

import (
	"crypto/md5"
	"crypto/rand"
	"math/big"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"spillway/collector/internal/sink"
)

// An aggregate is many records in one record of the stream, as the Kinesis
// Producer Library makes them and the KCL, and the de-aggregation libraries for
// Lambda and others, take them apart:
//
//	F3 89 9A C2 | AggregatedRecord | MD5 of the AggregatedRecord
//
//	message AggregatedRecord {
//	  repeated string partition_key_table     = 1;
//	  repeated string explicit_hash_key_table = 2;
//	  repeated Record records                 = 3;
//	}
//	message Record {
//	  required uint64 partition_key_index     = 1;
//	  optional uint64 explicit_hash_key_index = 2;
//	  required bytes  data                    = 3;
//	}
//
// Each record keeps its partition key. But the KCL throws an aggregate away if
// the key of one of its records does not belong to the shard it was read from.
// So all records of an aggregate have the hash key by which the aggregate itself
// was put into its shard: this holds however the stream is split or merged.
const (
	payloadUnit = 25_000 // what the service counts as one PUT payload unit, at least
	// aggregateBytes is how large an aggregate may be: just below a whole number of
	// payload units, since the last of them costs as much begun as full.
	aggregateBytes = 4 * payloadUnit
	// aggregateRecords bounds the records that share one fate.
	aggregateRecords = 2000
	// aggregated is how many times more records a Write may have than a call: a
	// bound for memory, MaxBytes mostly comes first.
	aggregated = 20
	// outerKey is the partition key of an aggregate. It chooses nothing, as there is
	// a hash key, but it counts towards the size.
	outerKey = "a"
)

var aggregateMagic = []byte{0xf3, 0x89, 0x9a, 0xc2}

// The fields of the two messages.
const (
	fieldKeys, fieldHashes, fieldRecords     = 1, 2, 3
	fieldKeyIndex, fieldHashIndex, fieldData = 1, 2, 3
)

// parcel is one record of the stream: one record of ours as it is, or many.
type parcel struct {
	at   []int // places of the records in it
	data []byte
	key  string
	hash string // empty: by key
}

func (p *parcel) size() int64 { return int64(len(p.data) + len(p.key)) }

// plain makes a parcel of each record at these places.
func plain(records []sink.Record, at []int) []parcel {
	parcels := make([]parcel, len(at))
	for n := range at {
		r := records[at[n]]
		parcels[n] = parcel{at: at[n : n+1 : n+1], data: r.Data, key: validKey(r.Key)}
	}
	return parcels
}

// validKey is a key as the service takes it: it only chooses the shard.
func validKey(key string) string { return strings.ToValidUTF8(key, "\uFFFD") }

// aggregate makes parcels of at most so many bytes of the records at these places,
// in order, as few as it can. A record too large to share a parcel gets one of its
// own, as it is.
func aggregate(records []sink.Record, at []int, most int) []parcel {
	var parcels []parcel
	open := aggregator{most: most}
	for _, i := range at {
		if !open.add(records[i], i) {
			parcels = append(parcels, open.close(records)...)
			if !open.add(records[i], i) {
				parcels = append(parcels, plain(records, []int{i})...)
			}
		}
	}
	return append(parcels, open.close(records)...)
}

// aggregator builds one aggregate.
type aggregator struct {
	most  int // bytes
	at    []int
	keys  map[string]uint64 // to their place in the table
	table []byte            // the partition keys, encoded
	body  []byte            // the records, encoded
}

// add adds a record, or returns false if there is no room for it.
func (a *aggregator) add(r sink.Record, at int) bool {
	key := validKey(r.Key)
	index, known := a.keys[key]
	if !known {
		index = uint64(len(a.keys))
	}
	inner := 1 + protowire.SizeVarint(index) + 2 + 1 + protowire.SizeBytes(len(r.Data))
	size := a.size() + 1 + protowire.SizeBytes(inner)
	if !known {
		size += 1 + protowire.SizeBytes(len(key))
	}
	if size > a.most || len(a.at) == aggregateRecords {
		return false
	}
	if a.body == nil {
		a.body = make([]byte, 0, a.most/2)
	}
	if !known {
		if a.keys == nil {
			a.keys = map[string]uint64{}
		}
		a.keys[key] = index
		a.table = protowire.AppendTag(a.table, fieldKeys, protowire.BytesType)
		a.table = protowire.AppendString(a.table, key)
	}
	b := protowire.AppendTag(a.body, fieldRecords, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(inner))
	b = protowire.AppendTag(b, fieldKeyIndex, protowire.VarintType)
	b = protowire.AppendVarint(b, index)
	b = protowire.AppendTag(b, fieldHashIndex, protowire.VarintType)
	b = protowire.AppendVarint(b, 0)
	b = protowire.AppendTag(b, fieldData, protowire.BytesType)
	a.body = protowire.AppendBytes(b, r.Data)
	a.at = append(a.at, at)
	return true
}

// mostHashBytes is the table of one hash key, encoded: 2^128 has 39 digits.
const mostHashBytes = 2 + 39

// size is what the aggregate has by now, its key included.
func (a *aggregator) size() int {
	return len(aggregateMagic) + len(a.table) + mostHashBytes + len(a.body) + md5.Size + len(outerKey)
}

// close returns the aggregate, if there is one, and empties a. A record alone
// stays as it is.
func (a *aggregator) close(records []sink.Record) []parcel {
	at := a.at
	defer func() { *a = aggregator{most: a.most} }()
	if len(at) < 2 {
		return plain(records, at)
	}
	hash := randomHash()
	data := make([]byte, 0, a.size())
	data = append(data, aggregateMagic...)
	data = append(data, a.table...)
	data = protowire.AppendTag(data, fieldHashes, protowire.BytesType)
	data = protowire.AppendString(data, hash)
	data = append(data, a.body...)
	sum := md5.Sum(data[len(aggregateMagic):])
	return []parcel{{at: at, data: append(data, sum[:]...), key: outerKey, hash: hash}}
}

// randomHash chooses a place among all shards.
func randomHash() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return new(big.Int).SetBytes(b[:]).String()
}
