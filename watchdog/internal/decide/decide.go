// Package decide is the watchdog's mind: what an observation of the collector
// means, and what shall be done about it.
package decide
