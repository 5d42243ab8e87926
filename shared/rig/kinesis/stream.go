package kinesis

import (
	"crypto/md5"
	"fmt"
	"math/big"
	"strconv"
	"time"

	"golang.org/x/time/rate"
)

// keySpace is the number of hash keys: 2^128.
var keySpace = new(big.Int).Lsh(big.NewInt(1), 128)

type stream struct {
	name           string
	createdAt      time.Time
	maxRecordBytes int64
	records        []stored // all shards together, in the order of arrival; only ever appended to
	shards         []*shard
}

// shard owns the hash keys from start to just below end.
type shard struct {
	id         string
	index      int
	start, end *big.Int
	records    []int // positions in stream.records; the place in this list is in the sequence number
	perSecond  *rate.Limiter
	bytes      *rate.Limiter
}

type stored struct {
	shard *shard
	place int // in shard.records
	key   string
	data  []byte
	at    time.Time
}

func newStream(name string, shards int, maxRecordBytes int64, r Rate) *stream {
	st := &stream{name: name, createdAt: time.Now(), maxRecordBytes: maxRecordBytes}
	bound := func(i int) *big.Int {
		n := new(big.Int).Mul(keySpace, big.NewInt(int64(i)))
		return n.Div(n, big.NewInt(int64(shards)))
	}
	for i := range shards {
		st.shards = append(st.shards, &shard{id: fmt.Sprintf("shardId-%012d", i), index: i, start: bound(i), end: bound(i + 1)})
	}
	st.limit(r)
	return st
}

func (st *stream) arn() string { return "arn:aws:kinesis:us-east-1:000000000000:stream/" + st.name }

// limit gives every shard full buckets of one second's worth. The bucket of
// bytes holds at least one record of the largest size, or it could never pass.
func (st *stream) limit(r Rate) {
	bucket := func(perSecond float64, least int64) *rate.Limiter {
		if perSecond <= 0 {
			return rate.NewLimiter(rate.Inf, 0)
		}
		return rate.NewLimiter(rate.Limit(perSecond), max(int(perSecond), int(least)))
	}
	for _, sh := range st.shards {
		sh.perSecond, sh.bytes = bucket(r.Records, 1), bucket(r.Bytes, st.maxRecordBytes)
	}
}

// route returns the shard for a partition key, or for an explicit hash key if
// there is one (which must have been checked).
func (st *stream) route(key, explicit string) *shard {
	hash := new(big.Int)
	if explicit != "" {
		hash.SetString(explicit, 10)
	} else {
		sum := md5.Sum([]byte(key))
		hash.SetBytes(sum[:])
	}
	n := new(big.Int).Mul(hash, big.NewInt(int64(len(st.shards))))
	sh := st.shards[n.Rsh(n, 128).Int64()]
	// Where the key space does not divide evenly, bounds are rounded down and
	// the quotient may fall one short.
	for hash.Cmp(sh.end) >= 0 {
		sh = st.shards[sh.index+1]
	}
	return sh
}

// take says whether the shard has room for a record now, and uses it up.
func (sh *shard) take(now time.Time, bytes int) bool {
	return room(sh.perSecond, now, 1) && room(sh.bytes, now, bytes) &&
		sh.perSecond.AllowN(now, 1) && sh.bytes.AllowN(now, bytes)
}

func room(l *rate.Limiter, now time.Time, n int) bool {
	return l.Limit() == rate.Inf || l.TokensAt(now) >= float64(n)
}

func (st *stream) store(sh *shard, key string, data []byte, now time.Time) (seq string) {
	st.records = append(st.records, stored{shard: sh, place: len(sh.records), key: key, data: data, at: now})
	sh.records = append(sh.records, len(st.records)-1)
	return sh.seq(len(sh.records) - 1)
}

// seq makes the sequence number of a place: 56 digits that rise within the
// shard and are unique in the stream, like the service's.
func (sh *shard) seq(place int) string { return fmt.Sprintf("4966%046d%06d", place, sh.index) }

// place finds the place of a sequence number.
func (sh *shard) place(seq string) (int, bool) {
	if len(seq) != 56 {
		return 0, false
	}
	n, err := strconv.Atoi(seq[4:50])
	return n, err == nil && n < len(sh.records) && sh.seq(n) == seq
}

func (st *stream) shard(id string) *shard {
	for _, sh := range st.shards {
		if sh.id == id {
			return sh
		}
	}
	return nil
}

func (r *stored) export() Record {
	return Record{Seq: r.shard.seq(r.place), Shard: r.shard.id, Key: r.key, Data: r.data, At: r.at}
}
