// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config has the arguments of the plugin, and switches that can change while it runs.
//
//	scheduler configuration ── pluginConfig ──► DrayArgs ── Decode ──► DrayArgs, checked and with defaults
//	file ── read again while the scheduler runs ──► Switches ──► SwitchFile
//
// # Where to look
//
//	args.go      DrayArgs, as people write them
//	decode.go    reading them: defaults and checks
//	switches.go  the file of switches
package config
