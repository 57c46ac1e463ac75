"""The host's side of a toolset's server, whatever it speaks: started in the box, heard, bounded, and not believed.

boxed          the program in the box, and the one connection to it
foreign_tools  bytes into messages; what is offered, cut for a brain; limits; a person's word
server         requests and their answers, and what every protocol's client has
"""
