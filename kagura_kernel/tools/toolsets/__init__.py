"""The host's side of a toolset's server, whatever it speaks: started in the box, heard, bounded, and not believed.

limits   how much, how fast, how long
sending  what goes into the box
boxed    the program in the box, and the one connection to it
cutting  bytes into messages
peer     JSON-RPC: requests and their answers
server   the four of them together
client   what every protocol's client has
"""
