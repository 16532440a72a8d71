// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config is what the configuration of the plugin says.
//
//	scheduler configuration ── pluginConfig ──► DrayArgs ── Decode ──► DrayArgs, checked and with defaults
//	file ── read again while the scheduler runs ──► Switches ──► SwitchFile
//
// # Where to look
//
//	args.go      DrayArgs, as people write them
//	decode.go    reading them: defaults and checks
//	switches.go  what can be turned off while the scheduler runs
package config
